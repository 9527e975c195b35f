import { describe, expect, it } from "vitest";

import type { Job, JobEvent } from "@/api/types";

import { applyToJob, gather, LOG_LINES, NOTHING_YET, searchKey, staleParts } from "./jobLive";

function event(seq: number, type: JobEvent["type"], data: Record<string, unknown>): JobEvent {
  return { seq, type, data, created_at: "2026-11-21T12:00:00Z" };
}

const log = (seq: number, message = `line ${seq}`) => event(seq, "log", { level: "info", message });
const state = (seq: number, to: string, attempt = 1) =>
  event(seq, "state", { state: to, previous: "queued", attempt, problem: null });
const progress = (seq: number, step: number) =>
  event(seq, "progress", { stage: "tuning", step, steps: 9, message: "", eta_seconds: 4 });
const search = (seq: number, scheduler: string, states: number) =>
  event(seq, "search", { scheduler, batch_size: 1, states });

const job: Job = {
  id: "5f0c0d5e-0000-4000-8000-000000000000",
  name: "squeezenet",
  state: "queued",
  spec: {
    model: "zoo:squeezenet",
    device: "cpu",
    batch_sizes: [1],
    schedulers: ["sequential", "ios"],
    budget_seconds: 300,
    granularity: "fused",
    purpose: "tune",
    sequence_length: null,
    seed: 0,
    provider: "aten",
    allow_noise: false,
    measurer: "serial",
    ios: {
      max_units_per_group: 3,
      max_groups_per_stage: 8,
      strategies: "both",
      threads: "searched",
      mode: "guided",
      gap: 0,
    },
    opara: { strict: false },
  },
  model_name: "squeezenet",
  progress: { stage: "queued", step: 0, steps: 0, message: "", eta_seconds: null },
  problem: null,
  summary: null,
  attempt: 0,
  created_at: "2026-11-21T12:00:00Z",
  started_at: null,
  finished_at: null,
  event_seq: 2,
};

describe("gather", () => {
  it("keeps the log in order and ignores what it has seen", () => {
    const once = gather(NOTHING_YET, [log(2), log(1)]);
    expect(once.log.map((line) => line.seq)).toEqual([1, 2]);
    const twice = gather(once, [log(1), log(2)]);
    expect(twice).toBe(once);
    expect(gather(twice, [log(2), log(3)]).log.map((line) => line.seq)).toEqual([1, 2, 3]);
  });

  it("has a line for each change of state", () => {
    const live = gather(NOTHING_YET, [state(1, "importing"), state(2, "importing", 2)]);
    expect(live.log.map((line) => line.message)).toEqual(["importing", "importing, attempt 2"]);
  });

  it("keeps the newest search of each scheduler", () => {
    const live = gather(NOTHING_YET, [
      search(1, "ios", 10),
      search(2, "greedy", 3),
      search(3, "ios", 20),
    ]);
    expect(live.searches[searchKey(1, "ios")]?.states).toBe(20);
    expect(live.searches[searchKey(1, "greedy")]?.states).toBe(3);
  });

  it("forgets the searches of an attempt when the next one begins", () => {
    const first = gather(NOTHING_YET, [state(1, "importing"), search(2, "ios", 10)]);
    const second = gather(first, [state(3, "importing", 2)]);
    expect(second.searches).toEqual({});
    const replayed = [search(2, "ios", 10), state(3, "importing", 2), search(4, "greedy", 5)];
    expect(Object.keys(gather(NOTHING_YET, replayed).searches)).toEqual([searchKey(1, "greedy")]);
  });

  it("leaves the log's identity alone when no line came, so that it is not drawn again", () => {
    const before = gather(NOTHING_YET, [log(1)]);
    const after = gather(before, [search(2, "ios", 1)]);
    expect(after.log).toBe(before.log);
    expect(after.seq).toBe(2);
  });

  it("drops the oldest lines of a very long log", () => {
    const many = Array.from({ length: LOG_LINES + 10 }, (_, index) => log(index + 1));
    const live = gather(NOTHING_YET, many);
    expect(live.log).toHaveLength(LOG_LINES);
    expect(live.log[0]?.seq).toBe(11);
  });
});

describe("applyToJob", () => {
  it("does not go back to what a replay says", () => {
    expect(applyToJob(job, [state(1, "tuning"), progress(2, 5)])).toBe(job);
  });

  it("follows state and progress", () => {
    const next = applyToJob(job, [state(3, "importing"), progress(4, 1), state(5, "tuning")]);
    expect(next.state).toBe("tuning");
    expect(next.attempt).toBe(1);
    expect(next.progress.step).toBe(1);
    expect(next.event_seq).toBe(5);
  });

  it("starts the steps anew when the job is queued again", () => {
    const next = applyToJob(job, [progress(3, 7), state(4, "queued", 0)]);
    expect(next.progress.step).toBe(0);
    expect(next.progress.stage).toBe("queued");
  });

  it("stops the clock when the job ends, and starts it anew for a retry", () => {
    const ended = applyToJob({ ...job, started_at: "2026-11-21T11:59:00Z" }, [state(3, "failed")]);
    expect(ended.finished_at).toBe("2026-11-21T12:00:00Z");
    const again = applyToJob(ended, [state(4, "queued", 0)]);
    expect([again.started_at, again.finished_at]).toEqual([null, null]);
  });
});

describe("staleParts", () => {
  it("names only the figure that an event changes", () => {
    expect([...staleParts([search(3, "ios", 1)], 2)]).toEqual(["search"]);
    expect([...staleParts([event(3, "round", {})], 2)]).toEqual(["rounds"]);
    expect([...staleParts([event(3, "result", {})], 2)]).toEqual([
      "results",
      "latency",
      "timeline",
    ]);
  });

  it("is the history of a job for kernels with every round, and its kernel with every program", () => {
    const round = staleParts([event(3, "tuning_round", {})], 2);
    for (const part of ["tuning", "tuningRounds", "tuning-best", "tuning-processes"] as const) {
      expect(round.has(part)).toBe(true);
    }
    expect(round.has("tuningKernels")).toBe(false);
    const kernel = staleParts([event(3, "tuning_kernel", {})], 2);
    expect([...kernel]).toEqual(["tuning", "tuningKernels", "tuning-best"]);
  });

  it("is empty for a replay, for the log and for progress", () => {
    expect(staleParts([search(2, "ios", 1)], 2).size).toBe(0);
    expect(staleParts([log(3), progress(4, 1)], 2).size).toBe(0);
  });

  it("is everything when a job ends or starts anew, and the job alone in between", () => {
    expect(staleParts([state(3, "succeeded")], 2).has("artifacts")).toBe(true);
    expect(staleParts([state(3, "queued", 0)], 2).has("results")).toBe(true);
    expect([...staleParts([state(3, "tuning")], 2)]).toEqual(["job", "tuning"]);
    // The figure of the searches is the latest attempt's.
    expect([...staleParts([state(3, "importing", 2)], 2)]).toEqual(["job", "search"]);
  });
});
