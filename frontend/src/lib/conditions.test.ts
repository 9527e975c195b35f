import { describe, expect, it } from "vitest";

import { conditionSections, noiseComplaint } from "./conditions";

const ENVIRONMENT = {
  device: "two cores",
  load_per_core: 0.25,
  versions: { torch: "2.13.0", python: "3.12.4" },
  noise: { busy_share: 0.4, others: [], complaint: "other processes take 40% of its CPU time" },
  clocks: {},
};

describe("conditionSections", () => {
  it("has a section for each mapping that says something", () => {
    expect(conditionSections(ENVIRONMENT)).toEqual([
      {
        title: "Conditions",
        lines: [
          ["Device", "two cores"],
          ["Load per core", "0.25"],
        ],
      },
      {
        title: "Versions",
        lines: [
          ["Torch", "2.13.0"],
          ["Python", "3.12.4"],
        ],
      },
      {
        title: "Noise",
        lines: [["Busy share", "40 %"]],
      },
    ]);
  });

  it("has none for a result of before conditions were kept", () => {
    expect(conditionSections({})).toEqual([]);
  });
});

describe("noiseComplaint", () => {
  it("is there only if the machine was too busy", () => {
    expect(noiseComplaint(ENVIRONMENT)).toContain("40%");
    expect(noiseComplaint({ noise: { busy_share: 0.01, complaint: null } })).toBeNull();
    expect(noiseComplaint({})).toBeNull();
  });
});
