import { Text } from "@mantine/core";
import type { ReactNode } from "react";

import type { Job, JobSpec } from "@/api/types";
import { Facts } from "@/components/Facts";
import { ModelLink } from "@/components/ModelLink";
import { Panel } from "@/components/Panel";
import { AUTO, AUTO_LABEL, runs } from "@/lib/auto";
import { duration, schedulerName } from "@/lib/format";
import { GRANULARITIES } from "@/lib/granularities";
import { graphSearch } from "@/lib/graphChoice";
import { iosFacts } from "@/lib/iosOptions";
import { providerLabel } from "@/lib/providers";

/** What was asked for. */
export function SpecPanel({ job }: { job: Job }) {
  const { spec } = job;
  return (
    <Panel title="Specification" grow>
      <Facts
        facts={[
          [
            "Model",
            <ModelLink key="model" source={spec.model} graph={graphSearch(spec)} testId="job-model">
              {job.model_name}
            </ModelLink>,
          ],
          ["Device", spec.device],
          ["Batch sizes", spec.batch_sizes.join(", ")],
          ["Sequence length", spec.sequence_length],
          ...(spec.purpose === "tune" ? searchFacts(spec) : []),
          ["Granularity", GRANULARITIES[spec.granularity].label],
          ["Seed", spec.purpose === "tune" ? spec.seed : null],
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

/** How the search goes; an inspection has none. */
function searchFacts(spec: JobSpec): [string, ReactNode][] {
  return [
    ["Kernels", providerLabel(spec.provider)],
    ["Busy machine", spec.allow_noise ? "measured all the same" : null],
    ["Schedulers", schedulerWords(spec.schedulers)],
    ["Budget", `${duration(spec.budget_seconds)} for each batch size`],
    ...(runs(spec.schedulers, "ios") ? iosFacts(spec) : []),
    ["Opara", runs(spec.schedulers, "opara") && spec.opara.strict ? "as published" : null],
  ];
}

const schedulerWords = (names: readonly string[]) =>
  names.map((name) => (name === AUTO ? AUTO_LABEL : schedulerName(name))).join(", ");
