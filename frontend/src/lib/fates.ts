/** What became of each contender for a batch size, in words. */
import type { BatchSummary, Result } from "@/api/types";

export interface Fate {
  /** What happened, in a few words; empty for what nobody compared. */
  words: string;
  /** Why, for those that lost. */
  reason: string | null;
  /** Whether it is the one to take, as good as that, or neither. */
  rank: "best" | "tied" | "other";
}

type Contender = Pick<Result, "scheduler" | "kind" | "winner" | "search">;
type Known = Pick<BatchSummary, "faster_alternative">;

export const isAlternative = (result: Pick<Result, "kind">) => result.kind === "alternative";

/** From the worker's free JSON and, once it is there, the summary of the batch size. */
export function fateOf(result: Contender, summary: Known | undefined): Fate {
  const faster = summary?.faster_alternative ?? null;
  if (isAlternative(result) && result.scheduler === faster?.name) {
    return { words: "keep this: faster than any schedule", reason: null, rank: "best" };
  }
  if (result.winner) {
    const words = faster === null ? "winner" : "in the artifact";
    return { words, reason: null, rank: faster === null ? "best" : "other" };
  }
  const { tied, final, rung, rungs, dropped } = result.search;
  const reason = typeof dropped === "string" && dropped !== "" ? dropped : null;
  if (tied === true) {
    const words = `tied with ${faster === null ? "the winner" : "the fastest"}`;
    return { words, reason: null, rank: "tied" };
  }
  if (final === true) return { words: "lost the final", reason, rank: "other" };
  if (typeof rung === "number" && typeof rungs === "number") {
    return { words: `dropped in rung ${rung} of ${rungs}`, reason, rank: "other" };
  }
  return { words: "", reason, rank: "other" };
}

/** A fate in one line. */
export const fateWords = ({ words, reason }: Fate) => [words, reason].filter(Boolean).join(": ");
