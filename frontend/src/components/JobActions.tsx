import { Button, Group } from "@mantine/core";
import { notifications } from "@mantine/notifications";

import { useCancelJob, useRetryJob } from "@/api/mutations";
import { asProblem } from "@/api/problem";
import type { Job } from "@/api/types";
import { isCancellable, isRetriable } from "@/lib/jobStates";

interface JobActionsProps {
  job: Job;
  size: "xs" | "compact-xs";
}

function tell(error: unknown): void {
  const problem = asProblem(error);
  notifications.show({ color: "red", title: problem.title, message: problem.detail });
}

/** Cancel or retry, whichever the job's state allows. */
export function JobActions({ job, size }: JobActionsProps) {
  const cancel = useCancelJob();
  const retry = useRetryJob();
  return (
    <Group gap="xs" justify="flex-end" wrap="nowrap">
      {(isCancellable(job.state) || job.state === "cancelling") && (
        <Button
          size={size}
          variant="default"
          disabled={job.state === "cancelling"}
          loading={cancel.isPending}
          onClick={() => cancel.mutate(job.id, { onError: tell })}
          data-testid="job-cancel"
        >
          {job.state === "cancelling" ? "Cancelling" : "Cancel"}
        </Button>
      )}
      {isRetriable(job.state) && (
        <Button
          size={size}
          variant="default"
          loading={retry.isPending}
          onClick={() => retry.mutate(job.id, { onError: tell })}
          data-testid="job-retry"
        >
          Retry
        </Button>
      )}
    </Group>
  );
}
