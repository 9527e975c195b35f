/** What a list or a heading says of a job. */
import type { BatchSummary, Job } from "@/api/types";

/** The label that people gave, or the model's name. */
export const jobTitle = (job: Job) => job.name || job.model_name;

/** The batch size that gained most, or null while there is no result. */
export function bestSummary(job: Job): BatchSummary | null {
  return (job.summary ?? []).reduce<BatchSummary | null>(
    (best, each) => (best === null || each.speedup > best.speedup ? each : best),
    null,
  );
}

/** Seconds that the job has run, until `now` if it still does; null before a worker took it. */
export function runSeconds(job: Job, now: Date): number | null {
  if (job.started_at === null) return null;
  const end = job.finished_at === null ? now : new Date(job.finished_at);
  return Math.max(0, (end.getTime() - new Date(job.started_at).getTime()) / 1000);
}

/** How far the present stage is, from 0 to 1; null where it does not say. */
export function stepFraction(job: Job): number | null {
  const { step, steps } = job.progress;
  return steps > 0 ? Math.min(step / steps, 1) : null;
}
