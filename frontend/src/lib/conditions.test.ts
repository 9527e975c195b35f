import { describe, expect, it } from "vitest";

import { conditionSections, noiseComplaint } from "./conditions";

const ENVIRONMENT = {
  device: "two cores",
  simulated: false,
  load_per_core: 0.25,
  versions: { torch: "2.13.0", python: "3.12.4" },
  noise: { busy_share: 0.4, others: [], complaint: "other processes take 40% of its CPU time" },
  clocks: {},
};

describe("conditionSections", () => {
  it("has a section for each mapping that says something", () => {
    expect(conditionSections({ environment: ENVIRONMENT, simulated: false })).toEqual([
      {
        title: "Conditions",
        lines: [
          ["Device", "two cores"],
          ["Load per core", "0.25"],
        ],
      },
      {
        title: "Noise",
        lines: [["Busy share", "40 %"]],
      },
      {
        title: "Versions",
        lines: [
          ["Torch", "2.13.0"],
          ["Python", "3.12.4"],
        ],
      },
    ]);
  });

  it("does not speak of noise where nothing can disturb", () => {
    const titles = conditionSections({ environment: ENVIRONMENT, simulated: true });
    expect(titles.map(({ title }) => title)).toEqual(["Conditions", "Versions"]);
  });

  it("says when a load was seen", () => {
    const environment = { after: { running: 5 }, before: { running: 1 } };
    const titles = conditionSections({ environment, simulated: false }).map(({ title }) => title);
    expect(titles).toEqual(["After measuring", "Before measuring"]);
  });

  it("has none for a result of before conditions were kept", () => {
    expect(conditionSections({ environment: {}, simulated: false })).toEqual([]);
  });
});

describe("noiseComplaint", () => {
  it("is there only if the machine was too busy", () => {
    expect(noiseComplaint(ENVIRONMENT)).toContain("40%");
    expect(noiseComplaint({ noise: { busy_share: 0.01, complaint: null } })).toBeNull();
    expect(noiseComplaint({})).toBeNull();
  });
});
