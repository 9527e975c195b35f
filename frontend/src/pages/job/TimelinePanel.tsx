import { Button, Group, Select, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { addresses, resultsQuery } from "@/api/queries";
import type { Job, Result } from "@/api/types";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { isSimulatedName } from "@/lib/deviceFacts";
import { isAlternative } from "@/lib/fates";
import { schedulerName } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";

import { FigurePanel } from "./FigurePanel";

const route = getRouteApi("/jobs/$jobId");

/** When each unit ran on which stream, for the scheduler chosen; the winner's at first. */
export function TimelinePanel({ job, batchSize }: { job: Job; batchSize: number | undefined }) {
  const { scheduler, batch } = route.useSearch();
  const navigate = route.useNavigate();
  const results = useQuery(resultsQuery(job.id)).data ?? [];
  const ofBatch = results.filter(
    (result) => result.batch_size === batchSize && !isAlternative(result),
  );
  const chosen = ofBatch.find((result) => result.scheduler === scheduler);
  const shown = chosen ?? ofBatch.find((result) => result.winner) ?? ofBatch[0];
  const simulated = isSimulatedName(job.spec.device);
  return (
    <FigurePanel
      jobId={job.id}
      kind="timeline"
      title="Timeline of streams"
      note={
        <Group gap="xs" data-testid="timeline-note">
          <span>
            one run, unit by unit, {simulated ? "simulated" : "measured"} on {job.spec.device}
          </span>
          {simulated && <SimulatedBadge />}
        </Group>
      }
      batchSize={batchSize}
      scheduler={chosen?.scheduler}
      height={300}
      finished={isFinished(job.state)}
      empty="No timeline has been recorded"
      actions={
        <Group gap="xs">
          {shown && <TraceLink jobId={job.id} result={shown} />}
          <Select
            size="xs"
            w={190}
            aria-label="Scheduler of the timeline"
            placeholder="Scheduler"
            disabled={ofBatch.length === 0}
            data={ofBatch.map((result) => ({
              value: result.scheduler,
              label: schedulerName(result.scheduler),
            }))}
            value={shown?.scheduler ?? null}
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
        </Group>
      }
    />
  );
}

function TraceLink({ jobId, result }: { jobId: string; result: Result }) {
  return (
    <Tooltip label="Of this timeline; opens in Perfetto or chrome://tracing">
      <Button
        component="a"
        size="xs"
        variant="default"
        leftSection={<IconDownload size={14} />}
        href={addresses.trace(jobId, result.id)}
        download
        data-testid="timeline-trace"
      >
        Chrome trace
      </Button>
    </Tooltip>
  );
}
