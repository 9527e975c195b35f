import { Stack, Text } from "@mantine/core";
import { Fragment } from "react";

import type { BatchSummary, Job } from "@/api/types";
import { Panel } from "@/components/Panel";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { isSimulatedName } from "@/lib/deviceFacts";
import { floorBars, gapWords } from "@/lib/floors";
import { isFinished } from "@/lib/jobStates";

import classes from "./WhyPanel.module.css";

/** What the winner gains and where, and how far it is from what nothing is expected to beat. */
export function WhyPanel({ job }: { job: Job }) {
  const explained = (job.summary ?? []).filter(({ why }) => why.length > 0);
  if (explained.length === 0 && isFinished(job.state)) return null;
  const several = job.spec.batch_sizes.length > 1;
  return (
    <Panel title="Why" actions={isSimulatedName(job.spec.device) && <SimulatedBadge />} grow>
      <Stack gap="md" data-testid="job-why">
        {explained.map((summary) => (
          <Reasons key={summary.batch_size} summary={summary} several={several} />
        ))}
        {explained.length === 0 && (
          <Text size="sm" c="dimmed" mih={170}>
            What the winner gains, and where, is told once it is known.
          </Text>
        )}
      </Stack>
    </Panel>
  );
}

function Reasons({ summary, several }: { summary: BatchSummary; several: boolean }) {
  const bars = floorBars(summary);
  const gap = gapWords(summary);
  return (
    <div>
      {several && (
        <Text size="xs" fw={600} c="dimmed" mb={4}>
          Batch {summary.batch_size}
        </Text>
      )}
      <ul className={classes.sentences}>
        {summary.why.map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
      {bars.length > 0 && (
        <>
          <Text size="xs" fw={600} c="dimmed" mt="sm" mb={4}>
            The latency against its floors
          </Text>
          <dl className={classes.bars} data-testid="job-floors">
            {bars.map(({ name, words, share, kind }) => (
              <Fragment key={name}>
                <dt>{name}</dt>
                <dd className={classes.track}>
                  <div className={classes.bar} data-kind={kind} style={{ width: `${100 * share}%` }} />
                </dd>
                <dd>{words}</dd>
              </Fragment>
            ))}
          </dl>
        </>
      )}
      {gap && (
        <Text size="xs" c="dimmed" mt={6} data-testid="job-gap">
          {gap}
        </Text>
      )}
    </div>
  );
}
