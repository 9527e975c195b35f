import { Text } from "@mantine/core";
import type { ReactNode } from "react";

import type { Job, JobSpec, KernelOptions } from "@/api/types";
import { Facts } from "@/components/Facts";
import { ModelLink } from "@/components/ModelLink";
import { Panel } from "@/components/Panel";
import { AUTO, AUTO_LABEL, runs } from "@/lib/auto";
import { count, duration, schedulerName } from "@/lib/format";
import { GRANULARITIES } from "@/lib/granularities";
import { graphSearch } from "@/lib/graphChoice";
import { iosFacts } from "@/lib/iosOptions";
import { HOSTS, measurerWords, STAGE_MEASURERS } from "@/lib/measurers";
import { providerLabel } from "@/lib/providers";
import { PURPOSES } from "@/lib/purposes";

/** What was asked for. */
export function SpecPanel({ job }: { job: Job }) {
  const { spec } = job;
  return (
    <Panel title="Specification" grow>
      <Facts
        facts={[
          ["Purpose", PURPOSES[spec.purpose].label],
          [
            "Model",
            spec.model && (
              <ModelLink
                key="model"
                source={spec.model}
                graph={graphSearch(spec)}
                testId="job-model"
              >
                {job.model_name}
              </ModelLink>
            ),
          ],
          ["Device", spec.device],
          ["Batch sizes", spec.model && spec.batch_sizes.join(", ")],
          ["Sequence length", spec.sequence_length],
          ...(spec.purpose === "tune" ? searchFacts(spec) : []),
          ...(spec.kernels ? kernelFacts(spec.kernels, spec) : []),
          ["Granularity", spec.kernels ? null : GRANULARITIES[spec.granularity].label],
          ["Seed", spec.purpose === "inspect" ? null : spec.seed],
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

/** How kernels are tuned. */
function kernelFacts(kernels: KernelOptions, spec: JobSpec): [string, ReactNode][] {
  return [
    ["Programs", programWords(kernels)],
    ["Tuner", kernels.tuner],
    ["Measurer", measurerWords(kernels.measurer)],
    ["Trials", count(kernels.trials)],
    ["Batch size", `${count(kernels.batch_size)} candidates`],
    ["Hosts", kernels.hosts === "own" ? null : HOSTS[kernels.hosts].label],
    ["Busy machine", spec.allow_noise ? "measured all the same" : null],
    ["Caches", kernels.cold ? "flushed before every run" : null],
    ["Budget", duration(spec.budget_seconds)],
  ];
}

const programWords = ({ programs }: KernelOptions) =>
  programs.length === 0
    ? "all of the model's"
    : programs.map(({ workload, family }) => workload ?? family).join(", ");

/** How the search goes; an inspection has none. */
function searchFacts(spec: JobSpec): [string, ReactNode][] {
  return [
    ["Kernels", providerLabel(spec.provider)],
    ["Busy machine", spec.allow_noise ? "measured all the same" : null],
    [
      "Stages measured",
      spec.measurer === "serial" ? null : STAGE_MEASURERS[spec.measurer].label,
    ],
    ["Schedulers", schedulerWords(spec.schedulers)],
    ["Budget", `${duration(spec.budget_seconds)} for each batch size`],
    ...(runs(spec.schedulers, "ios") ? iosFacts(spec) : []),
    ["Opara", runs(spec.schedulers, "opara") && spec.opara.strict ? "as published" : null],
  ];
}

const schedulerWords = (names: readonly string[]) =>
  names.map((name) => (name === AUTO ? AUTO_LABEL : schedulerName(name))).join(", ");
