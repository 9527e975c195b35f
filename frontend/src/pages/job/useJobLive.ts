import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";

import { addresses, keys } from "@/api/queries";
import type { StreamStatus } from "@/api/stream";
import type { Job, JobEvent } from "@/api/types";
import { useStream } from "@/api/useStream";
import { applyToJob, gather, type JobLive, NOTHING_YET, type Part, staleParts } from "@/lib/jobLive";
import { isFinished } from "@/lib/jobStates";
import { throttle, type Throttled } from "@/lib/throttle";

/** No part of the page is fetched again more often than this, however fast events come. */
const REFRESH_MS = 1000;

/** Tuning kernels has many figures and rounds, and drawing them takes what measuring needs. */
const TUNING_REFRESH_MS = 2500;

function keyOf(id: string, part: Part): readonly string[] {
  switch (part) {
    case "job":
      return keys.job(id);
    case "results":
      return keys.results(id);
    case "artifacts":
      return keys.artifacts(id);
    case "tuning":
      return keys.tuning(id);
    case "tuningRounds":
      return keys.tuningRounds(id);
    case "tuningKernels":
      return keys.tuningKernels(id);
    default:
      return keys.figure(id, part);
  }
}

/** Follows the job's events: patches the job, gathers the log, and refreshes what they change. */
export function useJobLive(job: Job): { live: JobLive; status: StreamStatus } {
  const id = job.id;
  const cache = useQueryClient();
  const [live, setLive] = useState<JobLive>(NOTHING_YET);
  // What the page fetched when it opened reflects the events up to here; a replay refreshes nothing.
  const reflected = useRef(job.event_seq);
  const refreshers = useMemo(() => new Map<Part, Throttled>(), []);

  const refresh = (part: Part) => {
    const run = () =>
      void cache.invalidateQueries({ queryKey: keyOf(id, part), exact: part === "job" });
    const refresher = refreshers.get(part) ?? throttle(run, part.startsWith("tuning") ? TUNING_REFRESH_MS : REFRESH_MS);
    refreshers.set(part, refresher);
    refresher();
  };
  useEffect(
    () => () => {
      for (const refresher of refreshers.values()) refresher.cancel();
    },
    [refreshers],
  );

  const status = useStream<JobEvent>({
    streamKey: id,
    address: (after) => addresses.jobEvents(id, after),
    finished: isFinished(job.state),
    onEvents: (events) => {
      setLive((before) => gather(before, events));
      cache.setQueryData<Job>(keys.job(id), (before) => before && applyToJob(before, events));
      for (const part of staleParts(events, reflected.current)) refresh(part);
      reflected.current = Math.max(reflected.current, ...events.map((event) => event.seq));
    },
  });
  return { live, status };
}
