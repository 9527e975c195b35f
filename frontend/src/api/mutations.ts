/** What the pages change, and what each change makes stale. */
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { client, dataOf } from "./client";
import { type GraphChoice, keys } from "./queries";
import type { Job, JobCreate, TokenCreate } from "./types";

export function useCreateJob() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (job: JobCreate) => dataOf(client.POST("/api/v1/jobs", { body: job })),
    onSuccess: (job) => {
      cache.setQueryData(keys.job(job.id), job);
      void cache.invalidateQueries({ queryKey: keys.jobs });
    },
  });
}

export function useInspect(source: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (choice: GraphChoice) =>
      dataOf(
        client.POST("/api/v1/models/{model}/inspections", {
          params: { path: { model: source } },
          body: choice,
        }),
      ),
    onSuccess: (job, choice) => {
      cache.setQueryData(keys.job(job.id), job);
      return cache.invalidateQueries({ queryKey: keys.inspections(source, choice) });
    },
  });
}

function useJobAction(act: (id: string) => Promise<Job>) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: act,
    // Fetched rather than set: the job's events may have overtaken the answer.
    onSettled: (_job, _error, id) => {
      void cache.invalidateQueries({ queryKey: keys.job(id) });
      void cache.invalidateQueries({ queryKey: keys.jobs });
    },
  });
}

export const useCancelJob = () =>
  useJobAction((id) =>
    dataOf(client.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: id } } })),
  );

export const useRetryJob = () =>
  useJobAction((id) =>
    dataOf(client.POST("/api/v1/jobs/{job_id}/retry", { params: { path: { job_id: id } } })),
  );

/** Lets a stopped job for kernels go on where it was. */
export const useResumeJob = () =>
  useJobAction((id) =>
    dataOf(client.POST("/api/v1/jobs/{job_id}/resume", { params: { path: { job_id: id } } })),
  );

export function useDeleteUpload() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      dataOf(client.DELETE("/api/v1/uploads/{upload_id}", { params: { path: { upload_id: id } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: keys.uploads }),
  });
}

export function useCreateToken() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (body: TokenCreate) => dataOf(client.POST("/api/v1/tokens", { body })),
    onSuccess: () => cache.invalidateQueries({ queryKey: keys.tokens }),
  });
}

export function useRevokeToken() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      dataOf(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: id } } })),
    onSuccess: () => cache.invalidateQueries({ queryKey: keys.tokens }),
  });
}

export function useLogOut() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: () => dataOf(client.DELETE("/api/v1/session")),
    onSuccess: () => {
      cache.setQueryData(keys.session, null);
      // The next visitor of this browser must not see what this one read.
      cache.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== keys.session[0] });
    },
  });
}
