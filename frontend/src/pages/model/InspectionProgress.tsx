import { Group, Paper, Progress, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { jobQuery, keys } from "@/api/queries";
import type { Job } from "@/api/types";
import { JobActions } from "@/components/JobActions";
import { JobLink } from "@/components/JobLink";
import { StateBadge } from "@/components/StateBadge";
import { stepFraction } from "@/lib/jobFacts";
import { isFinished } from "@/lib/jobStates";

import { useJobLive } from "../job/useJobLive";

/** An inspection on its way, live. When it ends, what is known of the model is read again. */
export function InspectionProgress({ job: found, source }: { job: Job; source: string }) {
  const cache = useQueryClient();
  const { data: job } = useQuery({ ...jobQuery(found.id), initialData: found });
  useJobLive(job);
  const finished = isFinished(job.state);
  useEffect(() => {
    if (finished) void cache.invalidateQueries({ queryKey: keys.model(source) });
  }, [cache, finished, source]);
  const words =
    job.state === "queued"
      ? `Waiting until ${job.spec.device} is free`
      : job.progress.message;
  return (
    <Paper px="md" py="sm" mb="md" data-testid="inspection-progress">
      <Group justify="space-between" wrap="nowrap" gap="sm">
        <Group gap="sm" miw={0}>
          <Text fw={600} size="sm">
            Being inspected
          </Text>
          <StateBadge state={job.state} testId="inspection-state" />
          <Text size="xs">
            <JobLink id={job.id}>Log</JobLink>
          </Text>
        </Group>
        <JobActions job={job} size="compact-xs" />
      </Group>
      <Text size="xs" c="dimmed" truncate title={words} my={6} role="status">
        {words || "Starting"}
      </Text>
      <Progress value={Math.max((stepFraction(job) ?? 0) * 100, 6)} animated size="sm" aria-label="Being inspected" />
    </Paper>
  );
}
