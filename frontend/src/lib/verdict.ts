/** How a result compares with the baseline, as it was measured in turns with it. */
import type { Result } from "@/api/types";

export interface Verdict {
  /** The baseline's latency over this one's, and its 95 % interval. */
  speedup: number;
  low: number;
  high: number;
  /** Whether the interval can tell them apart. */
  differs: boolean;
}

/** From the worker's free JSON; null for a result that was not compared. */
export function verdictOf(search: Result["search"]): Verdict | null {
  const { speedup, speedup_low: low, speedup_high: high, verdict } = search;
  if (typeof speedup !== "number" || typeof low !== "number" || typeof high !== "number") {
    return null;
  }
  return { speedup, low, high, differs: verdict !== "no difference" };
}
