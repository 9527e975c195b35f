import type { SearchData } from "@/api/types";
import { count, schedulerName } from "@/lib/format";

/** How large the latest search is, in numbers. */
export function SearchNote({ searches }: { searches: readonly SearchData[] }) {
  const largest = searches.reduce<SearchData | null>(
    (best, each) => (best === null || each.transitions > best.transitions ? each : best),
    null,
  );
  if (largest === null || largest.transitions === 0) return null;
  return (
    <span data-testid="search-note">
      {schedulerName(largest.scheduler)}: {count(largest.states)} states,{" "}
      {count(largest.transitions)} transitions, {count(largest.stages_measured)} of{" "}
      {count(largest.stages_total)} stages measured
    </span>
  );
}
