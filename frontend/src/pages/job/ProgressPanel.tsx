import { Paper } from "@mantine/core";

import type { Job, JobSpec, JobState } from "@/api/types";
import { StepProgress } from "@/components/StepProgress";
import { count, duration } from "@/lib/format";
import { isSimulatedName } from "@/lib/deviceFacts";
import { isFinished } from "@/lib/jobStates";

import classes from "./ProgressPanel.module.css";

const STAGES: Record<JobSpec["purpose"], readonly string[]> = {
  tune: ["queued", "importing", "tuning", "verifying"],
  inspect: ["queued", "importing"],
  kernels: ["queued", "importing", "tuning", "verifying"],
};

const endings = (measured: "measured" | "simulated"): Partial<Record<JobState, string>> => ({
  succeeded: `Every schedule shown was ${measured}, and verified against the original model.`,
  failed: `The job has stopped. What it ${measured} is kept, so a retry need not do it again.`,
  cancelled: `The job was cancelled. What it ${measured} is kept, so a retry need not do it again.`,
});

const KERNEL_ENDINGS: Partial<Record<JobState, string>> = {
  succeeded: "Every kernel was checked against a reference, and measured again in isolation.",
  failed: "The job has stopped. Its rounds are kept, so that it can go on where it was.",
  cancelled: "The job was stopped. Its rounds are kept, so that it can go on where it was.",
};

/** Which stage and step the job is at, and how long this step should still take. */
export function ProgressPanel({ job }: { job: Job }) {
  const { stage, step, steps, message, eta_seconds: eta } = job.progress;
  const finished = isFinished(job.state);
  return (
    <Paper
      px="md"
      py="sm"
      className={classes.panel}
      data-testid="job-progress"
      data-stage={stage}
    >
      <Stages job={job} />
      <div>
        <div className={classes.words}>
          <span className={classes.message} title={message}>
            {endingWords(job) ?? (message || waitingWords(job))}
          </span>
          {!finished && (
            <span className={classes.left}>
              {steps > 0 && `${count(step)} / ${count(steps)}`}
              {eta !== null && eta !== undefined && ` · about ${duration(eta)} left`}
            </span>
          )}
        </div>
        <StepProgress job={job} size="sm" label="Progress of this step" />
      </div>
    </Paper>
  );
}

function endingWords(job: Job): string | undefined {
  if (job.spec.purpose === "kernels") return KERNEL_ENDINGS[job.state];
  if (job.spec.purpose === "tune" || !isFinished(job.state)) {
    return endings(isSimulatedName(job.spec.device) ? "simulated" : "measured")[job.state];
  }
  return job.state === "succeeded" ? "The model's page shows its graph." : "Nothing was stored.";
}

function waitingWords(job: Job): string {
  return job.state === "queued" ? `Waiting for a worker on ${job.spec.device}` : "Starting";
}

function Stages({ job }: { job: Job }) {
  const done = job.state === "succeeded";
  const stages = STAGES[job.spec.purpose];
  // Where a job that has ended stopped, its last progress tells.
  const at = stages.indexOf(stages.includes(job.state) ? job.state : job.progress.stage);
  return (
    <ol className={classes.stages} aria-label="Stages">
      {stages.map((stage, index) => (
        <li
          key={stage}
          className={classes.stage}
          data-reached={done || index < at || undefined}
          data-current={(!isFinished(job.state) && index === at) || undefined}
          data-stopped={(isFinished(job.state) && !done && index === at && job.state) || undefined}
          aria-current={!done && index === at ? "step" : undefined}
        >
          {stage}
        </li>
      ))}
    </ol>
  );
}
