import { type InfiniteData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";

import { addresses, jobsQuery, keys } from "@/api/queries";
import type { AnyJobEvent, JobPage, JobState } from "@/api/types";
import { useStream } from "@/api/useStream";
import { applyToJob } from "@/lib/jobLive";
import { isFinished } from "@/lib/jobStates";
import { throttle } from "@/lib/throttle";

/** The stream tells states only; how far the running ones are is asked for this often. */
const PROGRESS_MS = 3000;
const REFRESH_MS = 1000;

type Pages = InfiniteData<JobPage, string | null>;

/** The list of jobs, kept up to date. */
export function useJobList(state: JobState | undefined) {
  const cache = useQueryClient();
  const query = useInfiniteQuery({
    ...jobsQuery(state),
    refetchInterval: ({ state: { data } }) => {
      const running = data?.pages.some((page) => page.items.some((job) => !isFinished(job.state)));
      return running ? PROGRESS_MS * data!.pages.length : false;
    },
  });

  const refresh = useMemo(() => {
    const throttled = throttle(() => {
      // Refreshing now would cancel a page that is being loaded.
      if (cache.isFetching({ queryKey: keys.jobs }) > 0) throttled();
      else void cache.invalidateQueries({ queryKey: keys.jobs });
    }, REFRESH_MS);
    return throttled;
  }, [cache]);
  useEffect(() => refresh.cancel, [refresh]);

  useStream<AnyJobEvent>({
    streamKey: "jobs",
    address: addresses.allEvents,
    finished: false,
    onResync: refresh,
    onEvents: (events) => {
      cache.setQueriesData<Pages>({ queryKey: keys.jobs }, (pages) => pages && applied(pages, events));
      // A job that was added, or that no longer belongs under this filter, needs the list itself.
      refresh();
    },
  });
  return query;
}

function applied(pages: Pages, events: readonly AnyJobEvent[]): Pages {
  return {
    ...pages,
    pages: pages.pages.map((page) => ({
      ...page,
      items: page.items.map((job) =>
        applyToJob(
          job,
          events.filter((event) => event.job_id === job.id),
        ),
      ),
    })),
  };
}
