import { describe, expect, it } from "vitest";

import { searchSeconds, searchWords } from "./searchFacts";

describe("search facts", () => {
  it("says what a search took", () => {
    const search = { states: 412, transitions: 3980, stages_measured: 1402, seconds: 61.2 };
    expect(searchWords(search)).toBe("412 states, 3,980 transitions, 1,402 stages measured");
    expect(searchSeconds(search)).toBe("1 min 01 s");
    expect(searchSeconds({ seconds: 0.42 })).toBe("0.4 s");
  });

  it("is silent for a scheduler that did not search", () => {
    expect(searchWords({ states: 0, transitions: 0 })).toBe("");
    expect(searchSeconds({})).toBe("");
    expect(searchSeconds({ seconds: "unknown" })).toBe("");
  });
});
