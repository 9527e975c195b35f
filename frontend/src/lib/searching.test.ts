import { describe, expect, it } from "vitest";

import type { JobState, SearchData } from "@/api/types";

import { endingWords, gapOf, standingFacts, standingWords } from "./searching";

const search = (part: Partial<SearchData> = {}): SearchData => ({
  scheduler: "ios",
  batch_size: 1,
  elapsed_seconds: 4,
  block: 14,
  blocks: 16,
  states: 3980,
  transitions: 120_345,
  stages_measured: 200,
  stages_total: 190_000,
  best_ms: 3.71,
  bound_ms: 3.52,
  critical_path_ms: 2.1,
  expected_ms: null,
  states_visited: 412,
  states_pruned: 3100,
  stages_pruned: 150_000,
  stages_rechecked: 0,
  bound_holds: true,
  ended: null,
  ...part,
});

const facts = (part: Partial<SearchData>, simulated = false, state: JobState = "tuning") =>
  Object.fromEntries(standingFacts(search(part), { simulated, state }));

const words = (part: Partial<SearchData> = {}, simulated = false) =>
  standingWords(search(part), simulated);

describe("standingWords", () => {
  it("says the best, the proven bound and the gap between them", () => {
    expect(words()).toBe("best 3.710 ms, proven bound 3.520 ms, gap 5.1 %");
  });

  it("says only what is known", () => {
    expect(words({ best_ms: null })).toBe("");
    expect(words({ bound_ms: null })).toBe("best 3.710 ms");
  });

  it("never lets a model's expectation look proven", () => {
    expect(words({ expected_ms: 3.7 })).toBe(
      "best 3.710 ms, proven bound 3.520 ms, gap 5.1 %, expected 3.700 ms (not proven)",
    );
  });

  it("calls a bound that did not hold by its name, and measures the gap to it all the same", () => {
    expect(words({ bound_holds: false })).toBe(
      "best 3.710 ms, bound 3.520 ms (not proven), gap to it 5.1 %",
    );
  });

  it("labels what is simulated", () => {
    expect(words({}, true)).toMatch(/^best 3.710 ms \(simulated\),/);
  });
});

describe("gapOf", () => {
  it("is a share of the best, and never negative", () => {
    expect(gapOf(search({ best_ms: 4, bound_ms: 3 }))).toBe(0.25);
    expect(gapOf(search({ best_ms: 3.7, bound_ms: 3.7 }))).toBe(0);
    expect(gapOf(search({ best_ms: 3.7, bound_ms: 3.7000001 }))).toBe(0);
    expect(gapOf(search({ best_ms: null }))).toBeNull();
  });
});

describe("endingWords", () => {
  it("is silent while the search goes on", () => expect(endingWords(search())).toBeNull());

  it("says proven of nothing but an optimum whose bound holds", () => {
    const words = (ended: SearchData["ended"], holds = true) =>
      endingWords(search({ ended, bound_holds: holds })) ?? "";
    expect(words("optimal")).toMatch(/^proven optimal/);
    expect(words("converged")).toContain("not proven");
    expect(words("optimal", false)).toMatch(/not proven$/);
    expect(words("gap", false)).toMatch(/not proven$/);
    for (const ended of ["complete", "gap", "budget"] as const) {
      expect(words(ended)).not.toContain("proven");
    }
  });
});

describe("standingFacts", () => {
  it("counts what is settled of all", () => {
    expect(facts({})).toMatchObject({
      Stages: "200 of 190,000 measured, 150,000 pruned",
      States: "412 of 3,980 visited, 3,100 pruned",
      "Parts solved": "14 of 16",
      Gap: "5.1 %",
      "Critical path": "2.100 ms, which no schedule of stages beats, pruned or not",
      Status: "searching",
    });
  });

  it("labels what is simulated", () => {
    expect(facts({ expected_ms: 3.7 }, true)).toMatchObject({
      "Best predicted": "3.710 ms (simulated)",
      "Proven bound": "3.520 ms (simulated)",
      Expected: "3.700 ms (simulated) by a model, not proven",
    });
  });

  it("says of a gap that it proves nothing once a bound did not hold", () => {
    const shown = facts({ bound_holds: false });
    expect(shown["Proven bound"]).toBeUndefined();
    expect(shown["Bound"]).toContain("not proven");
    expect(shown["Gap"]).toBe("5.1 % to a bound that is not proven");
  });

  it("does not say that a job which was stopped still searches", () => {
    expect(facts({}, false, "cancelled")["Status"]).toBe("stopped, as the job was cancelled");
    expect(facts({}, false, "failed")["Status"]).toBe("stopped, as the job failed");
    expect(facts({}, false, "succeeded")["Status"]).toBeNull();
    expect(facts({ ended: "budget" }, false, "failed")["Status"]).toBe("the budget was used up");
  });

  it("leaves out a critical path that adds nothing to the bound, or is not proven", () => {
    expect(facts({ critical_path_ms: 3.52 })["Critical path"]).toBeNull();
    expect(facts({ critical_path_ms: null })["Critical path"]).toBeNull();
    expect(facts({ bound_holds: false })["Critical path"]).toBeNull();
  });

  it("says why the best may rise", () => {
    expect(facts({})["Measured again"]).toBeNull();
    expect(facts({ stages_rechecked: 31 }, true)["Measured again"]).toBeNull();
    expect(facts({ stages_rechecked: 31 })["Measured again"]).toBe(
      "31 stages, which may raise the best",
    );
  });

  it("leaves out what an older service did not count", () => {
    expect(facts({ states_visited: 0, states_pruned: 0, stages_pruned: 0 })).toMatchObject({
      States: "3,980",
      Stages: "200 of 190,000 measured",
    });
  });
});
