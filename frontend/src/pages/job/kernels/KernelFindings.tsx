import { Grid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { tuningQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";

import { SpecPanel } from "../SpecPanel";
import { ProgramsPanel } from "./ProgramsPanel";
import { RoundsPanel } from "./RoundsPanel";
import { TuningFigures } from "./TuningFigures";
import { TuningPanel } from "./TuningPanel";
import { UncoveredPanel } from "./UncoveredPanel";

/** What a job for kernels finds. */
export function KernelFindings({ job }: { job: Job }) {
  const query = useQuery(tuningQuery(job.id));
  if (query.isPending) return <Loading label="Loading what is tuned" />;
  if (!query.data) {
    return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  }
  const tuning = query.data;
  return (
    <>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 8.5 }}>
          <Stack gap="md" h="100%">
            <TuningPanel job={job} tuning={tuning} />
            <ProgramsPanel job={job} tuning={tuning} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 3.5 }}>
          <SpecPanel job={job} />
        </Grid.Col>
      </Grid>
      {tuning.uncovered.length > 0 && <UncoveredPanel tuning={tuning} />}
      <TuningFigures job={job} />
      <RoundsPanel job={job} tuning={tuning} />
    </>
  );
}
