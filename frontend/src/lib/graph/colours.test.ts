import { describe, expect, it } from "vitest";

import { costScale, FAMILIES, familiesIn, familyOf, inkOn, sequential, tint } from "./colours";

describe("colours", () => {
  it("gives every family a colour of its own, and a kind that is new to it one too", () => {
    expect(new Set(FAMILIES.map((family) => family.colour)).size).toBe(FAMILIES.length);
    expect(familyOf("attention")).toBe(familyOf("linear"));
    expect(familyOf("something new").name).toBe("Other");
    expect(familiesIn(["pool", "something new", "conv"]).map(({ name }) => name)).toEqual([
      "Convolution",
      "Pooling, reduction",
      "Other",
    ]);
  });

  it.each(["light", "dark"] as const)("runs from the page's colour away from it (%s)", (scheme) => {
    const luminance = (colour: string) =>
      [1, 3, 5].reduce((sum, at) => sum + parseInt(colour.slice(at, at + 2), 16), 0);
    const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => luminance(sequential(share, scheme)));
    const sorted = [...steps].sort((a, b) => (scheme === "light" ? b - a : a - b));
    expect(steps).toEqual(sorted);
    expect(sequential(-1, scheme)).toBe(sequential(0, scheme));
    expect(sequential(2, scheme)).toBe(sequential(1, scheme));
  });

  it("puts a quarter of the cost in the middle of the scale", () => {
    expect(costScale(25, 100)).toBe(0.5);
    expect(costScale(0, 0)).toBe(0);
  });

  it("writes dark on light and light on dark", () => {
    expect(inkOn("#ffffff")).toBe("#14181d");
    expect(inkOn("#1f4280")).toBe("#ffffff");
    expect(tint("#ff0000", "#ffffff", 0)).toBe("#ffffff");
    expect(tint("#ff0000", "#ffffff", 1)).toBe("#ff0000");
  });
});
