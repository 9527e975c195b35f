import { Group, Progress, Stack, Text } from "@mantine/core";

import type { Job, Tuning } from "@/api/types";
import { Facts } from "@/components/Facts";
import { Panel } from "@/components/Panel";
import { count, duration } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";
import { coveredWords, endedWords, failureCount, failureWords } from "@/lib/tuning";

/** How far tuning is, and what it has cost. */
export function TuningPanel({ job, tuning }: { job: Job; tuning: Tuning }) {
  const { trials, trials_wanted: wanted, failures, rounds, covered } = tuning;
  const tuned = tuning.programs.filter((program) => program.tuned).length;
  return (
    <Panel title="Tuning">
      <Stack gap="sm" data-testid="tuning-overview">
        <div>
          <Group justify="space-between" gap="xs">
            <Text fz={18} fw={600} data-testid="tuning-trials">
              {count(trials)} of {count(wanted)} trials
            </Text>
            <Text size="sm" c="dimmed">
              {count(rounds)} {rounds === 1 ? "round" : "rounds"} in {duration(tuning.tuned_s)}
            </Text>
          </Group>
          <Progress
            value={(100 * trials) / wanted}
            mt={6}
            size="sm"
            color={isFinished(job.state) && trials < wanted ? "gray" : "weave"}
            aria-label="Trials"
          />
        </div>
        <Facts
          facts={[
            ["Kernels", `${count(tuned)} of ${count(tuning.programs.length)} programs`],
            ["Failed", failureCount(failures) > 0 ? failureWords(failures) : "none"],
            ["Covered", covered === null ? null : `${coveredWords(covered)} of the model's FLOPs`],
            ["Ended", endedWords(tuning)],
          ]}
        />
      </Stack>
    </Panel>
  );
}
