import { describe, expect, it } from "vitest";

import { narrowed } from "./narrowed";

describe("narrowed", () => {
  const layout = {
    uirevision: "timeline",
    height: 466,
    margin: { l: 88, r: 24, t: 40, b: 70 },
    xaxis: { title: { text: "time (ms)" }, rangemode: "tozero" },
    yaxis2: { domain: [0, 0.3] },
    annotations: [{ text: "mean", x: 1, font: { size: 12 } }],
  };

  it("changes how large words and margins are, and nothing else", () => {
    expect(narrowed(layout)).toEqual({
      ...layout,
      font: { size: 10 },
      legend: { font: { size: 10 } },
      margin: { l: 48, r: 8, t: 40, b: 70 },
      xaxis: { title: { text: "time (ms)", font: { size: 11 } }, rangemode: "tozero" },
      annotations: [{ text: "mean", x: 1, font: { size: 10 } }],
    });
  });

  it("leaves what it was given as it was", () => {
    const before = structuredClone(layout);
    narrowed(layout);
    expect(layout).toEqual(before);
  });

  it("finds the legends of all panels", () => {
    const { legend, legend3 } = narrowed({ legend: { orientation: "h" }, legend3: { y: 0.2 } });
    expect(legend).toEqual({ orientation: "h", font: { size: 10 } });
    expect(legend3).toEqual({ y: 0.2, font: { size: 10 } });
  });
});
