/** What the pages read: one place for keys, so that an event knows what it makes stale. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { client, dataOf } from "./client";
import { ApiProblem } from "./problem";
import type {
  Clock,
  FigureKind,
  GraphFacts,
  Granularity,
  JobState,
  Session,
  TuningRound,
} from "./types";

const PAGE = 50;

/** Which graph of a model: what it depends on beside the model. */
export interface GraphChoice {
  batch_size: number;
  /** The model's own where it is not given. */
  sequence_length?: number;
  granularity: Granularity;
}

export const keys = {
  session: ["session"] as const,
  uploads: ["uploads"] as const,
  devices: ["devices"] as const,
  profiles: ["profiles"] as const,
  zoo: ["zoo"] as const,
  tokens: ["tokens"] as const,
  jobs: ["jobs"] as const,
  job: (id: string) => ["job", id] as const,
  model: (source: string) => ["model", source] as const,
  inspections: (source: string, choice: GraphChoice) =>
    ["model", source, "inspections", choice] as const,
  results: (id: string) => ["job", id, "results"] as const,
  artifacts: (id: string) => ["job", id, "artifacts"] as const,
  /** Of a job for kernels: what it tunes, its rounds so far, and the kernels it has found. */
  tuning: (id: string) => ["job", id, "tuning", "overview"] as const,
  tuningRounds: (id: string) => ["job", id, "tuning", "rounds"] as const,
  tuningKernels: (id: string) => ["job", id, "tuning", "kernels"] as const,
  figure: (id: string, kind: FigureKind) => ["job", id, "figure", kind] as const,
};

/** The session, or null for a visitor who is not logged in. */
export const sessionQuery = queryOptions({
  queryKey: keys.session,
  queryFn: async ({ signal }): Promise<Session | null> => {
    try {
      return await dataOf(client.GET("/api/v1/session", { signal }));
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

export const uploadsQuery = infiniteQueryOptions({
  queryKey: keys.uploads,
  queryFn: ({ pageParam, signal }) =>
    dataOf(
      client.GET("/api/v1/uploads", {
        params: { query: { limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) } },
        signal,
      }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next_cursor,
});

export const zooQuery = queryOptions({
  queryKey: keys.zoo,
  queryFn: ({ signal }) => dataOf(client.GET("/api/v1/models/zoo", { signal })),
  staleTime: 60_000,
});

export const devicesQuery = queryOptions({
  queryKey: keys.devices,
  queryFn: ({ signal }) => dataOf(client.GET("/api/v1/devices", { signal })),
  refetchInterval: 10_000,
});

/** How many measurements there are of each device. */
export const profilesQuery = queryOptions({
  queryKey: keys.profiles,
  queryFn: ({ signal }) => dataOf(client.GET("/api/v1/profiles/summary", { signal })),
  refetchInterval: 10_000,
});

export const jobsQuery = (state: JobState | undefined) =>
  infiniteQueryOptions({
    queryKey: [...keys.jobs, state ?? "all"],
    queryFn: ({ pageParam, signal }) =>
      dataOf(
        client.GET("/api/v1/jobs", {
          params: {
            query: {
              limit: PAGE,
              ...(state ? { state: [state] } : {}),
              ...(pageParam ? { cursor: pageParam } : {}),
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
  });

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: keys.job(id),
    queryFn: ({ signal }) =>
      dataOf(client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
  });

export const resultsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.results(id),
    queryFn: ({ signal }) =>
      dataOf(
        client.GET("/api/v1/jobs/{job_id}/results", { params: { path: { job_id: id } }, signal }),
      ),
  });

export const artifactsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.artifacts(id),
    queryFn: ({ signal }) =>
      dataOf(
        client.GET("/api/v1/jobs/{job_id}/artifacts", { params: { path: { job_id: id } }, signal }),
      ),
  });

const inJob = (id: string) => ({ path: { job_id: id } });

export const tuningQuery = (id: string) =>
  queryOptions({
    queryKey: keys.tuning(id),
    queryFn: ({ signal }) =>
      dataOf(client.GET("/api/v1/jobs/{job_id}/tuning", { params: inJob(id), signal })),
  });

const ROUNDS_AT_ONCE = 1000;

/** Every round, in order. A round never changes, so only those that are new are asked for. */
export const tuningRoundsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.tuningRounds(id),
    queryFn: async ({ signal, client: cache }): Promise<readonly TuningRound[]> => {
      const rounds = [...(cache.getQueryData<readonly TuningRound[]>(keys.tuningRounds(id)) ?? [])];
      for (;;) {
        const query = { after: rounds.at(-1)?.number ?? 0, limit: ROUNDS_AT_ONCE };
        const more = await dataOf(
          client.GET("/api/v1/jobs/{job_id}/tuning/rounds", {
            params: { ...inJob(id), query },
            signal,
          }),
        );
        rounds.push(...more);
        if (more.length < ROUNDS_AT_ONCE) return rounds;
      }
    },
  });

export const tuningKernelsQuery = (id: string) =>
  queryOptions({
    queryKey: keys.tuningKernels(id),
    queryFn: ({ signal }) =>
      dataOf(client.GET("/api/v1/jobs/{job_id}/tuning/kernels", { params: inJob(id), signal })),
  });

export interface FigureChoice {
  batchSize?: number | undefined;
  scheduler?: string | undefined;
  /** What the best latency of kernels is drawn over. */
  x?: Clock | undefined;
  /** The newest so many, of which processes are drawn. */
  rounds?: number | undefined;
  theme: "light" | "dark";
}

/** The figure before stays until the next has come: a live page never blinks. */
export const figureQuery = (id: string, kind: FigureKind, choice: FigureChoice) =>
  queryOptions({
    queryKey: [...keys.figure(id, kind), choice],
    queryFn: ({ signal }) =>
      dataOf(
        client.GET("/api/v1/jobs/{job_id}/figures/{kind}", {
          params: {
            path: { job_id: id, kind },
            query: {
              theme: choice.theme,
              ...(choice.batchSize === undefined ? {} : { batch_size: choice.batchSize }),
              ...(choice.scheduler === undefined ? {} : { scheduler: choice.scheduler }),
              ...(choice.x === undefined ? {} : { x: choice.x }),
              ...(choice.rounds === undefined ? {} : { rounds: choice.rounds }),
            },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });

export const modelQuery = (source: string) =>
  queryOptions({
    queryKey: keys.model(source),
    queryFn: ({ signal }) =>
      dataOf(client.GET("/api/v1/models/{model}", { params: { path: { model: source } }, signal })),
  });

/** The facts of a graph, or null if it has not been inspected. */
export const graphQuery = (source: string, choice: GraphChoice) =>
  queryOptions({
    queryKey: [...keys.model(source), "graph", choice],
    queryFn: async ({ signal }): Promise<GraphFacts | null> => {
      try {
        return await dataOf(
          client.GET("/api/v1/models/{model}/graph", {
            params: { path: { model: source }, query: choice },
            signal,
          }),
        );
      } catch (error) {
        if (error instanceof ApiProblem && error.status === 404) return null;
        throw error;
      }
    },
    staleTime: 60_000,
  });

/** The jobs that inspected just this graph, newest first. */
export const inspectionsQuery = (source: string, choice: GraphChoice) =>
  queryOptions({
    queryKey: keys.inspections(source, choice),
    queryFn: ({ signal }) =>
      dataOf(
        client.GET("/api/v1/models/{model}/inspections", {
          params: { path: { model: source }, query: choice },
          signal,
        }),
      ),
  });

export const tokensQuery = queryOptions({
  queryKey: keys.tokens,
  queryFn: ({ signal }) => dataOf(client.GET("/api/v1/tokens", { signal })),
});

const API = "/api/v1";

export const addresses = {
  jobEvents: (id: string, after: number) => `${API}/jobs/${id}/events/stream?after=${after}`,
  allEvents: () => `${API}/events/stream`,
  artifact: (id: string, artifact: string) => `${API}/jobs/${id}/artifacts/${artifact}/download`,
  schedule: (id: string, result: string) => `${API}/jobs/${id}/results/${result}/schedule`,
  kernel: (id: string, candidate: string) =>
    `${API}/jobs/${id}/tuning/kernels/${encodeURIComponent(candidate)}/download`,
  trace: (id: string, result: string) => `${API}/jobs/${id}/results/${result}/trace`,
  /** Of every device and provider, or only of those given. */
  profiles: (fingerprint?: string, provider?: string) => {
    const chosen = new URLSearchParams({
      ...(fingerprint === undefined ? {} : { device_fingerprint: fingerprint }),
      ...(provider === undefined ? {} : { provider }),
    });
    return `${API}/profiles${chosen.size > 0 ? `?${chosen}` : ""}`;
  },
  upload: (filename: string) => `${API}/uploads?filename=${encodeURIComponent(filename)}`,
};
