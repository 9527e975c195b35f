/** Where a search stands, in words. What is not proven never reads as if it were. */
import type { JobState, SearchData } from "@/api/types";

import { count, milliseconds, percent } from "./format";

/** What the words need; an event has it, and so has a result that has read its free JSON. */
export type Standing = Pick<
  SearchData,
  "best_ms" | "bound_ms" | "expected_ms" | "bound_holds" | "ended"
>;

const ENDINGS: Record<NonNullable<SearchData["ended"]>, string> = {
  complete: "every stage was measured, so nothing in the search space is faster",
  optimal: "proven optimal: nothing in the search space is faster",
  gap: "within the gap that was asked for",
  converged: "nothing better is expected, which is not proven",
  budget: "the budget was used up",
};

/** How far the best may be from the optimum, as a share of the best; null while that is open. */
export function gapOf({ best_ms: best, bound_ms: bound }: Standing): number | null {
  if (best === null || best <= 0 || bound === null) return null;
  return Math.max(0, (best - bound) / best);
}

/** `best 3.710 ms, proven bound 3.520 ms, gap 5.1 %`, as far as that is known. */
export function standingWords(search: Standing, simulated: boolean): string {
  const gap = gapOf(search);
  const { best_ms: best, bound_ms: bound, bound_holds: holds, expected_ms: expected } = search;
  return [
    best !== null && `best ${milliseconds(best)}${simulated ? " (simulated)" : ""}`,
    best !== null && bound !== null && boundWords(bound, holds),
    gap !== null && `${holds ? "gap" : "gap to it"} ${percent(gap)}`,
    expected !== null && `expected ${milliseconds(expected)} (not proven)`,
  ]
    .filter((words) => words !== false)
    .join(", ");
}

function boundWords(bound: number, holds: boolean): string {
  return holds ? `proven bound ${milliseconds(bound)}` : `bound ${milliseconds(bound)} (not proven)`;
}

/** Why the search ended; `null` while it goes on. */
export function endingWords({ ended, bound_holds: holds }: Standing): string | null {
  if (ended === null) return null;
  const leansOnBound = ended === "optimal" || ended === "gap";
  return leansOnBound && !holds
    ? "as near to its bound as was asked for, but the bound did not hold: not proven"
    : ENDINGS[ended];
}

type Fact = [string, string | null];

/** Names and values for a list; without a value is what does not apply. */
export function standingFacts(
  search: SearchData,
  { simulated, state }: { simulated: boolean; state: JobState },
): Fact[] {
  return [
    ...latencyFacts(search, simulated),
    ["Critical path", criticalPath(search, simulated)],
    ["Stages", settled(search.stages_measured, "measured", search.stages_pruned, search.stages_total)],
    [
      "Measured again",
      // What is computed is the same each time.
      search.stages_rechecked === 0 || simulated
        ? null
        : `${count(search.stages_rechecked)} stages, which may raise the best`,
    ],
    [
      "States",
      search.states_visited === 0
        ? count(search.states)
        : settled(search.states_visited, "visited", search.states_pruned, search.states),
    ],
    ["Transitions", count(search.transitions)],
    ["Parts solved", `${count(search.block)} of ${count(search.blocks)}`],
    ["Status", endingWords(search) ?? unended(state)],
  ];
}

/** Bounds what the search does not consider, too; where that is below the bound, and proven. */
function criticalPath(search: SearchData, simulated: boolean): string | null {
  const { critical_path_ms: least, bound_ms: bound, bound_holds: holds } = search;
  if (least === null || bound === null || least >= bound || !holds) return null;
  return `${latency(least, simulated)}, which no schedule of stages beats, pruned or not`;
}

const latency = (ms: number, simulated: boolean) =>
  `${milliseconds(ms)}${simulated ? " (simulated)" : ""}`;

/** What to say of a search that has not reported its end. Older services report none. */
function unended(state: JobState): string | null {
  switch (state) {
    case "tuning":
      return "searching";
    case "cancelling":
      return "stopping";
    case "failed":
      return "stopped, as the job failed";
    case "cancelled":
      return "stopped, as the job was cancelled";
    default:
      return null;
  }
}

/** The best, and what is known of how much better another schedule could be. */
export function latencyFacts(search: Standing, simulated: boolean): Fact[] {
  const { best_ms: best, bound_ms: bound, bound_holds: holds, expected_ms: expected } = search;
  const gap = gapOf(search);
  const time = (ms: number) => latency(ms, simulated);
  const doubt = holds ? "" : ", not proven: some stages were faster than smaller ones let expect";
  return [
    ["Best predicted", best === null ? "none known yet" : time(best)],
    [holds ? "Proven bound" : "Bound", bound === null ? null : time(bound) + doubt],
    ["Gap", gap === null ? null : `${percent(gap)}${holds ? "" : " to a bound that is not proven"}`],
    ["Expected", expected === null ? null : `${time(expected)} by a model, not proven`],
  ];
}

/** Whether a value from free JSON is a reason to end that this page knows. */
export const isEnding = (value: unknown): value is NonNullable<SearchData["ended"]> =>
  typeof value === "string" && Object.hasOwn(ENDINGS, value);

/** `200 of 190,000 measured, 150,000 pruned`. */
function settled(done: number, verb: string, pruned: number, all: number): string {
  return `${count(done)} of ${count(all)} ${verb}${pruned > 0 ? `, ${count(pruned)} pruned` : ""}`;
}
