/** Results side by side: which batch, in which order, against which baseline. */
import type { BatchSummary, Result } from "@/api/types";

/** What every job runs beside the schedulers that were asked for. */
export const BASELINE = "sequential";

export interface Compared {
  result: Result;
  /** Baseline latency over this one's; null while the baseline has not been measured. */
  ratio: number | null;
}

export interface BatchComparison {
  batchSize: number;
  rows: Compared[];
}

/** Results by batch size, the fastest first. */
export function compare(results: readonly Result[]): BatchComparison[] {
  const batches = [...new Set(results.map((result) => result.batch_size))].sort((a, b) => a - b);
  return batches.map((batchSize) => {
    const ofBatch = results.filter((result) => result.batch_size === batchSize);
    const baseline = ofBatch.find((result) => result.scheduler === BASELINE)?.latency_ms;
    const rows = ofBatch
      .map((result) => ({
        result,
        ratio: baseline === undefined ? null : baseline / result.latency_ms,
      }))
      .sort((a, b) => a.result.latency_ms - b.result.latency_ms);
    return { batchSize, rows };
  });
}

/** Whether anything was faster than what the user already had. */
export const beatsBaseline = (summary: BatchSummary) =>
  summary.winner !== BASELINE && summary.speedup > 1;
