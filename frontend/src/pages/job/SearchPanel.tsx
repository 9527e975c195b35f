import { Stack, Text } from "@mantine/core";

import type { Job, SearchData } from "@/api/types";
import { Facts } from "@/components/Facts";
import { isSimulatedName } from "@/lib/deviceFacts";
import { schedulerName } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";
import { standingFacts, standingWords } from "@/lib/searching";

import { FigurePanel } from "./FigurePanel";

/** As high as the figure that the service makes, so that nothing moves when it comes. */
const HEIGHT = 568;

interface SearchPanelProps {
  job: Job;
  batchSize: number | undefined;
  /** The newest event of each scheduler that has searched this batch size. */
  searches: readonly SearchData[];
}

/** How the schedulers search: a figure over time, and beside it where each of them stands. */
export function SearchPanel({ job, batchSize, searches }: SearchPanelProps) {
  const newest = searches.at(-1);
  return (
    <FigurePanel
      jobId={job.id}
      batchSize={batchSize}
      height={HEIGHT}
      finished={isFinished(job.state)}
      kind="search"
      title="Search"
      note={
        newest && (
          <span data-testid="search-note">
            {schedulerName(newest.scheduler)}:{" "}
            {standingWords(newest, isSimulatedName(job.spec.device))}
          </span>
        )
      }
      aside={searches.length > 0 && <Standings job={job} searches={searches} />}
      empty="No scheduler has searched"
    />
  );
}

function Standings({ job, searches }: Pick<SearchPanelProps, "job" | "searches">) {
  const context = {
    simulated: isSimulatedName(job.spec.device),
    state: job.state,
  };
  return (
    <Stack gap="md" data-testid="search-standings">
      {searches.map((search) => (
        <section key={search.scheduler} aria-label={schedulerName(search.scheduler)}>
          {searches.length > 1 && (
            <Text size="xs" fw={600} c="dimmed" mb={4}>
              {schedulerName(search.scheduler)}
            </Text>
          )}
          <Facts facts={standingFacts(search, context)} />
        </section>
      ))}
    </Stack>
  );
}
