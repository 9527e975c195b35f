import { describe, expect, it } from "vitest";

import { verdictOf } from "./verdict";

describe("verdictOf", () => {
  const compared = { speedup: 1.02, speedup_low: 0.99, speedup_high: 1.05 };
  it("takes the worker's word on whether there is a difference", () => {
    expect(verdictOf({ ...compared, verdict: "no difference" })).toEqual({
      speedup: 1.02,
      low: 0.99,
      high: 1.05,
      differs: false,
    });
    expect(verdictOf({ ...compared, verdict: "faster" })?.differs).toBe(true);
  });

  it("has none for what was not compared", () => {
    expect(verdictOf({ states: 3 })).toBeNull();
    expect(verdictOf({ ...compared, speedup_low: null })).toBeNull();
  });
});
