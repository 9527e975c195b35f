import { Group, Text, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";

import type { StreamStatus } from "@/api/stream";
import type { Job } from "@/api/types";
import { Ago } from "@/components/Ago";
import { JobActions } from "@/components/JobActions";
import { RunTime } from "@/components/RunTime";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { StateBadge } from "@/components/StateBadge";
import { isSimulatedName } from "@/lib/deviceFacts";
import { jobTitle } from "@/lib/jobFacts";

interface JobHeaderProps {
  job: Job;
  status: StreamStatus;
}

export function JobHeader({ job, status }: JobHeaderProps) {
  const title = jobTitle(job);
  useDocumentTitle(`${title}: ${job.state} · Plait`);
  return (
    <Group justify="space-between" align="flex-start" gap="sm" wrap="nowrap">
      <div style={{ minWidth: 0 }}>
        <Group gap="sm">
          <Title order={1} style={{ overflowWrap: "anywhere" }}>
            {title}
          </Title>
          <StateBadge state={job.state} testId="job-state" />
          {isSimulatedName(job.spec.device) && <SimulatedBadge />}
          {status === "lost" && (
            <Text size="xs" c="orange" role="status">
              Connection lost, reconnecting
            </Text>
          )}
        </Group>
        <Text size="sm" c="dimmed" mt={2}>
          {job.spec.purpose === "inspect" && "Inspection of "}
          {job.spec.purpose === "kernels" && "Kernels of "}
          {job.model_name} on {job.spec.device} · created <Ago at={job.created_at} />
          {job.started_at && (
            <>
              {" "}
              · {job.finished_at ? "ran for" : "running for"} <RunTime job={job} />
            </>
          )}
          {job.attempt > 1 && ` · attempt ${job.attempt}`}
        </Text>
      </div>
      <JobActions job={job} size="xs" />
    </Group>
  );
}
