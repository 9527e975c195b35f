import { describe, expect, it } from "vitest";

import {
  searchNotes,
  searchOutcome,
  searchSeconds,
  searchWords,
  withoutBarriers,
} from "./searchFacts";

describe("search facts", () => {
  it("says what a search took", () => {
    const search = { states: 412, transitions: 3980, stages_measured: 1402, seconds: 61.2 };
    expect(searchWords(search)).toBe("412 states, 3,980 transitions, 1,402 stages measured");
    expect(searchSeconds(search)).toBe("1 min 01 s");
    expect(searchSeconds({ seconds: 0.42 })).toBe("0.4 s");
  });

  it("says how good the schedule was found to be and why the search ended", () => {
    const search = { predicted_ms: 3.7, bound_ms: 3.7, bound_holds: true, ended: "optimal" };
    expect(searchOutcome(search, true)).toEqual([
      ["Best predicted", "3.700 ms (simulated)"],
      ["Proven bound", "3.700 ms (simulated)"],
      ["Gap", "0 %"],
      ["Expected", null],
      ["Ended", "proven optimal: nothing in the search space is faster"],
    ]);
  });

  it("takes no bound for proven on trust", () => {
    const facts = searchOutcome({ predicted_ms: 3.7, bound_ms: 3.7, ended: "optimal" }, false);
    expect(JSON.stringify(facts)).not.toContain("Proven bound");
    expect(searchOutcome({ predicted_ms: 3.7, ended: "interval" }, false)).toEqual([]);
    expect(searchOutcome({}, false)).toEqual([]);
  });

  it("hands on what the scheduler had to say", () => {
    expect(searchNotes({ notes: ["the budget ended", 7] })).toEqual(["the budget ended"]);
    expect(searchNotes({ notes: "none" })).toEqual([]);
    expect(searchNotes({})).toEqual([]);
  });

  it("knows stages without barriers, and takes nothing else for them", () => {
    expect(withoutBarriers({ barriers: false })).toBe(true);
    expect(withoutBarriers({ barriers: true })).toBe(false);
    expect(withoutBarriers({ barriers: null })).toBe(false);
    expect(withoutBarriers({})).toBe(false);
  });

  it("is silent for a scheduler that did not search", () => {
    expect(searchWords({ states: 0, transitions: 0 })).toBe("");
    expect(searchSeconds({})).toBe("");
    expect(searchSeconds({ seconds: "unknown" })).toBe("");
  });
});
