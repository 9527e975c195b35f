/** Results side by side: which batch, in which order, against which baseline. */
import type { BatchSummary, JobCreate, Result } from "@/api/types";

import { AUTO } from "./auto";
import { type Verdict, verdictOf } from "./verdict";

/** What every job runs beside the schedulers that were asked for. */
export const BASELINE = "sequential";

export interface Compared {
  result: Result;
  /** Baseline latency over this one's; null while the baseline has not been measured. */
  ratio: number | null;
  /** The same with its interval, where the two were measured in turns. */
  verdict: Verdict | null;
}

export interface BatchComparison {
  batchSize: number;
  /** By place, the best first; what has none, as older results do, by latency. */
  rows: Compared[];
  /** What was asked for and whose results have yet to come. */
  pending: string[];
}

type Asked = Pick<JobCreate, "batch_sizes" | "schedulers">;

/** The results of each batch size, and which of what was asked for is still to come. */
export function compare(asked: Asked, results: readonly Result[]): BatchComparison[] {
  const schedulers = [...new Set([BASELINE, ...asked.schedulers])];
  return asked.batch_sizes.map((batchSize) => {
    const ofBatch = results.filter((result) => result.batch_size === batchSize);
    const baseline = ofBatch.find((result) => result.scheduler === BASELINE)?.latency_ms;
    return {
      batchSize,
      rows: ofBatch
        .map((result) => ({
          result,
          ...against(baseline, result),
        }))
        .sort((a, b) => rank(a.result) - rank(b.result) || a.result.latency_ms - b.result.latency_ms),
      pending: schedulers.filter((name) =>
        // Nobody knows before how many there are of all; they come together.
        name === AUTO
          ? ofBatch.length === 0
          : ofBatch.every((result) => result.scheduler !== name),
      ),
    };
  });
}

const rank = (result: Result) => result.place ?? 0;

/** What was measured in turns says more than two medians of different minutes. */
function against(baseline: number | undefined, result: Result): Omit<Compared, "result"> {
  const verdict = result.scheduler === BASELINE ? null : verdictOf(result.search);
  if (verdict !== null) return { ratio: verdict.speedup, verdict };
  return { ratio: baseline === undefined ? null : baseline / result.latency_ms, verdict };
}

/** Whether anything was faster than what the user already had. */
export const beatsBaseline = (summary: BatchSummary) =>
  summary.winner !== BASELINE && summary.speedup > 1;
