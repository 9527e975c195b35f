import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";

import { ApiProblem } from "./problem";
import { keys } from "./queries";

const RETRIES = 2;

/** What the server answered stays the answer; only silence is worth asking again. */
function worthRetrying(failures: number, error: unknown): boolean {
  const answered = error instanceof ApiProblem && error.status >= 400 && error.status < 500;
  return !answered && failures < RETRIES;
}

export function createQueryClient(): QueryClient {
  // A session that ran out shows the log-in page at once, wherever it is noticed.
  const noticeLogOut = (error: unknown) => {
    if (error instanceof ApiProblem && error.status === 401) {
      queryClient.setQueryData(keys.session, null);
    }
  };
  const queryClient: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError: noticeLogOut }),
    mutationCache: new MutationCache({ onError: noticeLogOut }),
    defaultOptions: {
      queries: { retry: worthRetrying, staleTime: 2_000 },
      mutations: { retry: false },
    },
  });
  return queryClient;
}
