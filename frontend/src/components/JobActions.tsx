import { Button, Group } from "@mantine/core";
import { notifications } from "@mantine/notifications";

import { useCancelJob, useResumeJob, useRetryJob } from "@/api/mutations";
import { asProblem } from "@/api/problem";
import type { Job } from "@/api/types";
import { isCancellable, isResumable, isRetriable } from "@/lib/jobStates";

interface JobActionsProps {
  job: Job;
  size: "xs" | "compact-xs";
}

function tell(error: unknown): void {
  const problem = asProblem(error);
  notifications.show({ color: "red", title: problem.title, message: problem.detail });
}

/** Cancel or retry, or of a job for kernels stop or resume, whichever its state allows. */
export function JobActions({ job, size }: JobActionsProps) {
  const cancel = useCancelJob();
  const retry = useRetryJob();
  const resume = useResumeJob();
  const words = job.spec.purpose === "kernels" ? ["Stop", "Stopping"] : ["Cancel", "Cancelling"];
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
          {words[job.state === "cancelling" ? 1 : 0]}
        </Button>
      )}
      {isRetriable(job) && (
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
      {isResumable(job) && (
        <Button
          size={size}
          variant="default"
          loading={resume.isPending}
          onClick={() => resume.mutate(job.id, { onError: tell })}
          data-testid="job-resume"
        >
          Resume
        </Button>
      )}
    </Group>
  );
}
