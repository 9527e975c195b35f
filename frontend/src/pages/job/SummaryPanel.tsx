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
  const faster = summary.faster_alternative ?? null;
  return (
    <div style={{ minHeight: 48 }} data-testid="job-verdict">
      <Group gap="xs">
        <Text fz={18} fw={600}>
          {faster ? (
            <>
              Keep{" "}
              <Text span inherit c="orange">
                {schedulerName(faster.name)}
              </Text>
              : it is faster than any schedule
            </>
          ) : (
            <Found summary={summary} />
          )}
        </Text>
        {summary.simulated && <SimulatedBadge />}
      </Group>
      {faster && (
        <Text size="sm">
          It takes {milliseconds(faster.latency_ms)}.{" "}
          {beatsBaseline(summary) ? (
            <>
              Of the schedules, the best one is in the artifact: <Found summary={summary} />.
            </>
          ) : (
            `Of the schedules, none was proved faster than the ${BASELINE} baseline.`
          )}
        </Text>
      )}
      <Text size="sm" c="dimmed">
        Batch {summary.batch_size}:{" "}
        {beatsBaseline(summary)
          ? `${milliseconds(summary.latency_ms)} against ${milliseconds(summary.baseline_ms)}.`
          : `${milliseconds(summary.baseline_ms)}. The artifact holds the baseline.`}
        {summary.tied_with.length > 0 && <Ties summary={summary} />}
      </Text>
    </div>
  );
}

/** What the schedules gained. */
function Found({ summary }: { summary: BatchSummary }) {
  const where = summary.simulated ? ", in simulation" : "";
  if (!beatsBaseline(summary)) return `Nothing beat the ${BASELINE} baseline${where}`;
  return (
    <>
      {schedulerName(summary.winner)} is{" "}
      <Text span inherit c="green">
        {times(summary.speedup)}
      </Text>{" "}
      as fast as the {BASELINE} baseline{where}
    </>
  );
}

/** Who would do as well, as far as measuring can tell. */
function Ties({ summary }: { summary: BatchSummary }) {
  return (
    <span data-testid="job-ties">
      {" "}
      Not told apart from {summary.tied_with.map(schedulerName).join(", ")};{" "}
      {schedulerName(summary.winner)} is preferred.
    </span>
  );
}
