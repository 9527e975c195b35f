import { Text } from "@mantine/core";

import type { Job } from "@/api/types";
import { Facts } from "@/components/Facts";
import { Panel } from "@/components/Panel";
import { duration, schedulerName } from "@/lib/format";
import { GRANULARITIES } from "@/lib/granularities";

/** What was asked for. */
export function SpecPanel({ job }: { job: Job }) {
  const { spec } = job;
  return (
    <Panel title="Specification" grow>
      <Facts
        facts={[
          ["Model", job.model_name],
          ["Device", spec.device],
          ["Batch sizes", spec.batch_sizes.join(", ")],
          ["Schedulers", spec.schedulers.map(schedulerName).join(", ")],
          ["Budget", `${duration(spec.budget_seconds)} for each batch size`],
          [
            "IOS pruning",
            spec.schedulers.includes("ios")
              ? `r = ${spec.ios.max_units_per_group}, s = ${spec.ios.max_groups_per_stage}`
              : null,
          ],
          ["Granularity", GRANULARITIES[spec.granularity].label],
          ["Seed", spec.seed],
          [
            "Job",
            <Text key="id" ff="monospace" fz="xs" pt={2}>
              {job.id}
            </Text>,
          ],
        ]}
      />
    </Panel>
  );
}
