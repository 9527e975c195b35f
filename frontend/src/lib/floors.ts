/** How near a winner is to what nothing is expected to beat. */
import type { BatchSummary } from "@/api/types";

import { milliseconds, percent, schedulerName } from "./format";

export interface Bar {
  name: string;
  /** The latency in words, with what it is. */
  words: string;
  /** Of the longest bar, 0 to 1. */
  share: number;
  kind: "winner" | "floor";
}

type Known = Pick<BatchSummary, "winner" | "latency_ms" | "floors" | "simulated">;

/** The winner's latency, then the floors, the highest first, on one scale; nothing without floors. */
export function floorBars({ winner, latency_ms: latency, floors, simulated }: Known): Bar[] {
  if (floors.length === 0) return [];
  const longest = Math.max(latency, ...floors.map(({ ms }) => ms));
  const share = (ms: number) => (longest > 0 ? ms / longest : 0);
  const own = {
    name: schedulerName(winner),
    words: `${milliseconds(latency)}${simulated ? " (simulated)" : ""}`,
    share: share(latency),
    kind: "winner" as const,
  };
  const others = [...floors]
    .sort((a, b) => b.ms - a.ms)
    .map(({ name, ms }) => ({
      name: name.charAt(0).toUpperCase() + name.slice(1),
      words: `${milliseconds(ms)} (estimate)`,
      share: share(ms),
      kind: "floor" as const,
    }));
  return [own, ...others];
}

/** What is left above the highest floor that holds; nothing where none does. */
export function gapWords({ gap }: Pick<BatchSummary, "gap">): string | null {
  return gap === null || gap === undefined
    ? null
    : `Gap: ${percent(gap)} of the latency is above the highest floor. Floors are estimates.`;
}
