import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { resultsQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { schedulerName } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";

import { FigurePanel } from "./FigurePanel";

const route = getRouteApi("/jobs/$jobId");

/** When each unit ran on which stream, for the scheduler chosen; the winner's at first. */
export function TimelinePanel({ job, batchSize }: { job: Job; batchSize: number | undefined }) {
  const { scheduler, batch } = route.useSearch();
  const navigate = route.useNavigate();
  const results = useQuery(resultsQuery(job.id)).data ?? [];
  const ofBatch = results.filter((result) => result.batch_size === batchSize);
  const chosen = ofBatch.find((result) => result.scheduler === scheduler)?.scheduler;
  const winner = ofBatch.find((result) => result.winner)?.scheduler;
  return (
    <FigurePanel
      jobId={job.id}
      kind="timeline"
      title="Timeline of streams"
      note="one run, unit by unit"
      batchSize={batchSize}
      scheduler={chosen}
      height={300}
      finished={isFinished(job.state)}
      empty="No timeline has been recorded"
      actions={
        <Select
          size="xs"
          w={150}
          aria-label="Scheduler of the timeline"
          placeholder="Scheduler"
          disabled={ofBatch.length === 0}
          data={ofBatch.map((result) => ({
            value: result.scheduler,
            label: schedulerName(result.scheduler),
          }))}
          value={chosen ?? winner ?? null}
          onChange={(value) =>
            value &&
            void navigate({
              search: { ...(batch === undefined ? {} : { batch }), scheduler: value },
              replace: true,
              resetScroll: false,
            })
          }
          data-testid="timeline-scheduler"
        />
      }
    />
  );
}
