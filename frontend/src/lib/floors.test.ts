import { describe, expect, it } from "vitest";

import { floorBars, gapWords } from "./floors";

const summary = { winner: "ios+opara", latency_ms: 8, simulated: true };

describe("floorBars", () => {
  it("puts the winner and its floors on one scale, and says what is estimated", () => {
    const floors = [
      { name: "memory", ms: 2 },
      { name: "critical path", ms: 6 },
    ];
    expect(floorBars({ ...summary, floors })).toEqual([
      { name: "IOS + Opara", words: "8.000 ms (simulated)", share: 1, kind: "winner" },
      { name: "Critical path", words: "6.000 ms (estimate)", share: 0.75, kind: "floor" },
      { name: "Memory", words: "2.000 ms (estimate)", share: 0.25, kind: "floor" },
    ]);
  });

  it("has room for a floor that the winner refutes", () => {
    const [own, floor] = floorBars({ ...summary, floors: [{ name: "memory", ms: 16 }] });
    expect([own?.share, floor?.share]).toEqual([0.5, 1]);
  });

  it("shows nothing where no floor is known", () => {
    expect(floorBars({ ...summary, floors: [] })).toEqual([]);
  });
});

describe("gapWords", () => {
  it("is silent where no floor holds", () => {
    expect(gapWords({ gap: null })).toBeNull();
    expect(gapWords({ gap: 0.25 })).toContain("25 %");
  });
});
