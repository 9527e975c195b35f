import { Progress } from "@mantine/core";

import type { Job } from "@/api/types";
import { stepFraction } from "@/lib/jobFacts";
import { isFinished } from "@/lib/jobStates";

import classes from "./StepProgress.module.css";

interface StepProgressProps {
  job: Job;
  size: "xs" | "sm";
  label: string;
}

const COLOURS: Partial<Record<Job["state"], string>> = { failed: "red", cancelled: "gray" };

/** How far the job's present step is; where that is open, only that it goes on. */
export function StepProgress({ job, size, label }: StepProgressProps) {
  const fraction = stepFraction(job);
  if (fraction === null && job.state !== "queued" && !isFinished(job.state)) {
    return (
      <div
        className={classes.track}
        data-size={size}
        role="progressbar"
        aria-label={label}
      >
        <div className={classes.wanderer} />
      </div>
    );
  }
  return (
    <Progress
      value={100 * (job.state === "succeeded" ? 1 : (fraction ?? 0))}
      size={size}
      color={COLOURS[job.state] ?? "weave"}
      aria-label={label}
    />
  );
}
