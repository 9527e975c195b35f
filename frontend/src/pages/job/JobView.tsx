import { Grid, Stack } from "@mantine/core";

import type { Job } from "@/api/types";
import type { JobLive } from "@/lib/jobLive";

import { DownloadsPanel } from "./DownloadsPanel";
import { Figures } from "./Figures";
import { KernelFindings } from "./kernels/KernelFindings";
import { JobHeader } from "./JobHeader";
import { Leaderboard } from "./Leaderboard";
import { LogPanel } from "./LogPanel";
import { ProblemNotice } from "./ProblemNotice";
import { ProgressPanel } from "./ProgressPanel";
import { SpecPanel } from "./SpecPanel";
import { SummaryPanel } from "./SummaryPanel";
import { useJobLive } from "./useJobLive";
import { WhyPanel } from "./WhyPanel";

export function JobView({ job }: { job: Job }) {
  const { live, status } = useJobLive(job);
  return (
    <Stack gap="md">
      <JobHeader job={job} status={status} />
      {job.problem && <ProblemNotice problem={job.problem} />}
      <ProgressPanel job={job} />
      {job.spec.purpose === "inspect" && <SpecPanel job={job} />}
      {job.spec.purpose === "tune" && <Findings job={job} live={live} />}
      {job.spec.purpose === "kernels" && <KernelFindings job={job} />}
      <LogPanel lines={live.log} />
    </Stack>
  );
}

/** What a job for schedules finds. */
function Findings({ job, live }: { job: Job; live: JobLive }) {
  return (
    <>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 8.5 }}>
          <Stack gap="md" h="100%">
            <SummaryPanel job={job} />
            <WhyPanel job={job} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 3.5 }}>
          <Stack gap="md" h="100%">
            <DownloadsPanel job={job} />
            <SpecPanel job={job} />
          </Stack>
        </Grid.Col>
      </Grid>
      <Leaderboard job={job} />
      <Figures job={job} searches={live.searches} />
    </>
  );
}
