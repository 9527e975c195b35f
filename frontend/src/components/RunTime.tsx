import type { Job } from "@/api/types";
import { duration } from "@/lib/format";
import { runSeconds } from "@/lib/jobFacts";
import { isFinished } from "@/lib/jobStates";
import { useNow } from "@/lib/useNow";

/** How long the job ran, or has been running. */
export function RunTime({ job }: { job: Job }) {
  return isFinished(job.state) ? <Elapsed job={job} now={new Date()} /> : <Ticking job={job} />;
}

function Ticking({ job }: { job: Job }) {
  return <Elapsed job={job} now={useNow(1000)} />;
}

function Elapsed({ job, now }: { job: Job; now: Date }) {
  const seconds = runSeconds(job, now);
  return <span style={{ whiteSpace: "nowrap" }}>{seconds === null ? "" : duration(seconds)}</span>;
}
