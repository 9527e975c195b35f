import { Group, Stack, Text } from "@mantine/core";

import type { BatchSummary, Job } from "@/api/types";
import { Panel } from "@/components/Panel";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { BASELINE, beatsBaseline } from "@/lib/comparison";
import { milliseconds, schedulerName, times } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";

/** The answer: what is fastest, by how much, and honestly so when nothing is. */
export function SummaryPanel({ job }: { job: Job }) {
  return (
    <Panel title="Outcome">
      <Stack gap="sm" mih={roomFor(job.spec.batch_sizes.length)} data-testid="job-summary">
        {job.summary?.map((summary) => (
          <Verdict key={summary.batch_size} summary={summary} />
        ))}
        {!job.summary && (
          <Text size="sm" c="dimmed">
            {isFinished(job.state)
              ? "There is no outcome: the job ended before it had one."
              : "The winner is named once every schedule has been measured and verified."}
          </Text>
        )}
      </Stack>
    </Panel>
  );
}

/** Pixels that the verdicts will take, so that the page does not move when they come. */
const roomFor = (verdicts: number) => verdicts * 48 + (verdicts - 1) * 12;

function Verdict({ summary }: { summary: BatchSummary }) {
  const won = beatsBaseline(summary);
  return (
    <div style={{ minHeight: 48 }}>
      <Group gap="xs">
        <Text fz={18} fw={600}>
          {won ? (
            <>
              {schedulerName(summary.winner)} is{" "}
              <Text span inherit c="green">
                {times(summary.speedup)}
              </Text>{" "}
              as fast as the {BASELINE} baseline{summary.simulated && ", in simulation"}
            </>
          ) : (
            `Nothing beat the ${BASELINE} baseline${summary.simulated ? ", in simulation" : ""}`
          )}
        </Text>
        {summary.simulated && <SimulatedBadge />}
      </Group>
      <Text size="sm" c="dimmed">
        Batch {summary.batch_size}:{" "}
        {won
          ? `${milliseconds(summary.latency_ms)} against ${milliseconds(summary.baseline_ms)}.`
          : `${milliseconds(summary.baseline_ms)}. The artifact holds the baseline.`}
      </Text>
    </div>
  );
}
