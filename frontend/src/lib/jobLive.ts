/**
 * What a job's events do to the page, as pure functions. The stream replays a job from its first
 * event, and after a reconnect from the last one seen, so every function tolerates repetition.
 */
import type {
  FigureKind,
  Job,
  JobEvent,
  JobProgress,
  LogData,
  SearchData,
  StateData,
} from "@/api/types";

import { isFinished } from "./jobStates";

/** More lines than anyone scrolls through; the oldest go first. */
export const LOG_LINES = 5000;

export interface LogLine extends LogData {
  seq: number;
  at: string;
}

export interface JobLive {
  /** The last event seen; what does not come after it is a repetition. */
  seq: number;
  log: readonly LogLine[];
  /** The newest search event of each batch size and scheduler, under `searchKey`. */
  searches: Readonly<Record<string, SearchData>>;
}

/** What the events of an older service lack. */
const ADDED_LATER: Partial<SearchData> = {
  bound_ms: null,
  critical_path_ms: null,
  expected_ms: null,
  states_visited: 0,
  states_pruned: 0,
  stages_pruned: 0,
  stages_rechecked: 0,
  bound_holds: true,
  ended: null,
};

export const NOTHING_YET: JobLive = { seq: 0, log: [], searches: {} };

export const searchKey = (batchSize: number, scheduler: string) => `${batchSize}/${scheduler}`;

/** Adds events to what the page has gathered. Returns the same object if nothing is new. */
export function gather(live: JobLive, events: readonly JobEvent[]): JobLive {
  const fresh = newerThan(events, live.seq);
  const last = fresh.at(-1);
  if (last === undefined) return live;
  const lines: LogLine[] = [];
  let searches = live.searches;
  for (const event of fresh) {
    if (event.type === "log") {
      const data = event.data as unknown as LogData;
      lines.push({ ...data, seq: event.seq, at: event.created_at });
    } else if (event.type === "state") {
      const data = event.data as unknown as StateData;
      lines.push({ ...stateLine(data), seq: event.seq, at: event.created_at });
      // Another attempt searches anew: what the one before it found is no longer true of the job.
      if (data.state === "importing") searches = {};
    } else if (event.type === "search") {
      const data = { ...ADDED_LATER, ...event.data } as unknown as SearchData;
      searches = { ...searches, [searchKey(data.batch_size, data.scheduler)]: data };
    }
  }
  return {
    seq: last.seq,
    log: lines.length > 0 ? [...live.log, ...lines].slice(-LOG_LINES) : live.log,
    searches,
  };
}

/** A change of state in the log, so that a second attempt can be told from the first. */
function stateLine({ state, attempt, problem }: StateData): LogData {
  const level = state === "failed" ? "error" : "info";
  const during = attempt > 1 ? `, attempt ${attempt}` : "";
  return { level, message: `${state}${during}${problem ? `: ${problem.detail}` : ""}` };
}

/** The job as its events make it. Events that the job already reflects change nothing. */
export function applyToJob(job: Job, events: readonly JobEvent[]): Job {
  let next = job;
  for (const event of newerThan(events, job.event_seq)) {
    next = { ...next, event_seq: event.seq };
    if (event.type === "state") {
      next = enterState(next, event.data as unknown as StateData, event.created_at);
    } else if (event.type === "progress") {
      next = { ...next, progress: event.data as unknown as JobProgress };
    }
  }
  return next;
}

function enterState(job: Job, { state, attempt, problem }: StateData, at: string): Job {
  const next = { ...job, state, attempt, problem };
  if (state === "queued") {
    return { ...next, started_at: null, finished_at: null, summary: null, progress: NOTHING_DONE };
  }
  return { ...next, finished_at: isFinished(state) ? at : null };
}

const NOTHING_DONE: JobProgress = {
  stage: "queued",
  step: 0,
  steps: 0,
  message: "",
  eta_seconds: null,
};

/** What the page has to fetch again because of events. */
export type Part =
  | "job"
  | "results"
  | "artifacts"
  | "tuning"
  | "tuningRounds"
  | "tuningKernels"
  | FigureKind;

const TUNING_FIGURES: readonly FigureKind[] = [
  "tuning-best",
  "tuning-parallelism",
  "tuning-deviation",
  "tuning-failures",
  "tuning-processes",
  "tuning-cpu",
];

const PARTS_OF: Partial<Record<JobEvent["type"], readonly Part[]>> = {
  search: ["search"],
  round: ["rounds"],
  result: ["results", "latency", "timeline"],
  tuning_round: ["tuning", "tuningRounds", ...TUNING_FIGURES],
  tuning_kernel: ["tuning", "tuningKernels", "tuning-best"],
};

const ALL_PARTS: readonly Part[] = [
  "job",
  "results",
  "artifacts",
  "latency",
  "search",
  "rounds",
  "timeline",
  "tuning",
  "tuningRounds",
  "tuningKernels",
  ...TUNING_FIGURES,
];

/** The parts that events newer than `since` have made stale. */
export function staleParts(events: readonly JobEvent[], since: number): ReadonlySet<Part> {
  const stale = new Set<Part>();
  for (const event of newerThan(events, since)) {
    const parts = event.type === "state" ? partsOfState(event) : (PARTS_OF[event.type] ?? []);
    for (const part of parts) stale.add(part);
  }
  return stale;
}

function partsOfState(event: JobEvent): readonly Part[] {
  const { state } = event.data as unknown as StateData;
  // A retry drops the results of the attempt before it, an end adds the summary and artifacts.
  if (isFinished(state) || state === "queued") return ALL_PARTS;
  // What a job for kernels tunes is known once it was imported.
  return state === "importing" ? ["job", "search"] : ["job", "tuning"];
}

function newerThan(events: readonly JobEvent[], seq: number): readonly JobEvent[] {
  return events.filter((event) => event.seq > seq).sort((a, b) => a.seq - b.seq);
}
