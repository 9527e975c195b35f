/** What the states of a job mean for the page: the server's table decides, this only mirrors it. */
import type { Job, JobState } from "@/api/types";

export const JOB_STATES: readonly JobState[] = [
  "queued",
  "importing",
  "tuning",
  "verifying",
  "succeeded",
  "failed",
  "cancelling",
  "cancelled",
];

const FINISHED: ReadonlySet<JobState> = new Set<JobState>(["succeeded", "failed", "cancelled"]);
const CANCELLABLE: ReadonlySet<JobState> = new Set<JobState>([
  "queued",
  "importing",
  "tuning",
  "verifying",
]);
const RETRIABLE: ReadonlySet<JobState> = new Set<JobState>(["failed", "cancelled"]);

export const isFinished = (state: JobState) => FINISHED.has(state);
export const isCancellable = (state: JobState) => CANCELLABLE.has(state);
/** A job for kernels keeps its rounds, and goes on where it was. */
export const isResumable = ({ state, spec }: Pick<Job, "state" | "spec">) =>
  spec.purpose === "kernels" && RETRIABLE.has(state);
export const isRetriable = ({ state, spec }: Pick<Job, "state" | "spec">) =>
  spec.purpose !== "kernels" && RETRIABLE.has(state);

export function isJobState(value: unknown): value is JobState {
  return JOB_STATES.includes(value as JobState);
}
