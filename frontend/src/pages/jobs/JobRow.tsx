import { Box, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { BatchSummary, Job } from "@/api/types";
import { Ago } from "@/components/Ago";
import { JobActions } from "@/components/JobActions";
import { RunTime } from "@/components/RunTime";
import { StateBadge } from "@/components/StateBadge";
import { StepProgress } from "@/components/StepProgress";
import { count, schedulerName, times } from "@/lib/format";
import { bestSummary, jobTitle } from "@/lib/jobFacts";
import { isFinished } from "@/lib/jobStates";
import { PURPOSES } from "@/lib/purposes";

import classes from "./JobsTable.module.css";

export function JobRow({ job }: { job: Job }) {
  return (
    <Table.Tr className={classes.row} data-testid="job-row" data-job={job.id}>
      <Table.Td>
        <Text size="sm" truncate>
          <Link to="/jobs/$jobId" params={{ jobId: job.id }} className={classes.link}>
            {jobTitle(job)}
          </Link>
        </Text>
        <Box hiddenFrom="sm">
          <StateBadge state={job.state} />
          <Text size="xs" c="dimmed" span ml={6}>
            {PURPOSES[job.spec.purpose].short}
          </Text>
        </Box>
        <Text size="xs" c="dimmed" truncate visibleFrom="sm">
          <span data-testid="job-purpose">{PURPOSES[job.spec.purpose].short}</span> ·{" "}
          {job.name !== job.model_name && `${job.model_name} · `}
          {sizeWords(job)}
        </Text>
      </Table.Td>
      <Table.Td visibleFrom="md">
        <Text size="sm" truncate title={job.spec.device}>
          {job.spec.device}
        </Text>
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <StateBadge state={job.state} />
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <RowProgress job={job} />
      </Table.Td>
      <Table.Td ta="right">
        <Best job={job} />
      </Table.Td>
      <Table.Td ta="right" visibleFrom="md">
        <RunTime job={job} />
      </Table.Td>
      <Table.Td visibleFrom="md">
        <Ago at={job.created_at} />
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <JobActions job={job} size="compact-xs" />
      </Table.Td>
    </Table.Tr>
  );
}

/** How much there is to do. */
function sizeWords({ spec }: Job): string {
  if (spec.kernels) return `${count(spec.kernels.trials)} trials`;
  return `batch ${spec.batch_sizes.join(", ")}`;
}

function RowProgress({ job }: { job: Job }) {
  if (job.problem) {
    return (
      <Text size="xs" c="red" lineClamp={2} title={job.problem.detail}>
        {job.problem.detail}
      </Text>
    );
  }
  if (isFinished(job.state) || job.state === "queued") return null;
  return (
    <>
      <StepProgress job={job} size="xs" label={`${jobTitle(job)}, progress of this step`} />
      <Text size="xs" c="dimmed" truncate mt={2}>
        {job.progress.message || job.progress.stage}
      </Text>
    </>
  );
}

/** Whose figure it is, unless another should be kept. */
function bestWords({ simulated, winner, faster_alternative: faster }: BatchSummary): string {
  if (faster) return `keep ${schedulerName(faster.name)}`;
  return simulated ? "simulated" : schedulerName(winner);
}

function Best({ job }: { job: Job }) {
  const best = bestSummary(job);
  if (best === null) return null;
  const won = best.speedup > 1;
  return (
    <>
      <Text size="sm" fw={won ? 600 : 400} {...(won ? { c: "green" } : {})}>
        {times(best.speedup)}
      </Text>
      <Text size="xs" c="dimmed" truncate>
        {bestWords(best)}
      </Text>
    </>
  );
}
