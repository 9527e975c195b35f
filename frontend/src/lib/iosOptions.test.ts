import { describe, expect, it } from "vitest";

import type { JobSpec } from "@/api/types";

import { iosFacts } from "./iosOptions";

const searchOf = (ios: Partial<JobSpec["ios"]>) => {
  const spec = {
    ios: {
      max_units_per_group: 3,
      max_groups_per_stage: 8,
      strategies: "both",
      threads: "searched",
      mode: "exact",
      gap: 0,
      ...ios,
    },
  } as JobSpec;
  return Object.fromEntries(iosFacts(spec))["IOS search"];
};

describe("iosFacts", () => {
  it("has the gap in the percents that somebody typed", () => {
    for (const percents of [7, 0.1, 2.5, 29, 57]) {
      expect(searchOf({ gap: percents / 100 })).toBe(`exact, to a gap of ${percents} %`);
    }
  });

  it("leaves out a gap that changes nothing", () => {
    expect(searchOf({ gap: 0 })).toBe("exact");
    expect(searchOf({ gap: 0.07, mode: "exhaustive" })).toBe("exhaustive");
  });
});
