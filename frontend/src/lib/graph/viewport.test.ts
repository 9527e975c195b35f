import { describe, expect, it } from "vitest";

import { between, fit, held, MAX_SCALE, opening, panned, toDrawing, visible, zoomed } from "./viewport";

const SCREEN = { width: 800, height: 600 };
const BOX = { x: -500, y: 0, width: 1000, height: 400 };
const VIEW = { x: 10, y: 20, scale: 0.5 };

describe("the viewport", () => {
  it("fits all of a box, in the middle, at natural size at most", () => {
    const view = fit(BOX, SCREEN);
    const seen = visible(view, SCREEN);
    expect(seen.x).toBeLessThan(BOX.x);
    expect(seen.x + seen.width).toBeGreaterThan(BOX.x + BOX.width);
    expect(toDrawing(view, { x: 400, y: 300 })).toEqual({ x: 0, y: 200 });
    expect(fit({ x: 0, y: 0, width: 10, height: 10 }, SCREEN).scale).toBe(1);
  });

  it("opens a long drawing at its top rather than too small to read", () => {
    const view = opening({ ...BOX, height: 50_000 }, SCREEN);
    expect(view.scale).toBeGreaterThanOrEqual(0.4);
    expect(visible(view, SCREEN).y).toBeLessThanOrEqual(0);
    expect(visible(view, SCREEN).y).toBeGreaterThan(-100);
    expect(opening(BOX, SCREEN)).toEqual(fit(BOX, SCREEN));
  });

  it("keeps what is under the pointer where it is while it zooms", () => {
    const at = { x: 123, y: 456 };
    const before = toDrawing(VIEW, at);
    const after = toDrawing(zoomed(VIEW, at, 1.7), at);
    expect(after.x).toBeCloseTo(before.x);
    expect(after.y).toBeCloseTo(before.y);
    expect(zoomed(VIEW, at, 1e9).scale).toBe(MAX_SCALE);
    expect(zoomed(VIEW, at, 1e-9).scale).toBeGreaterThan(0);
  });

  it("never loses the drawing, however far it is dragged", () => {
    for (const by of [-1e6, 1e6]) {
      const view = held(panned(VIEW, { x: by, y: by }), BOX, SCREEN);
      const seen = visible(view, SCREEN);
      expect(seen.x).toBeLessThan(BOX.x + BOX.width);
      expect(seen.x + seen.width).toBeGreaterThan(BOX.x);
      expect(seen.y).toBeLessThan(BOX.y + BOX.height);
      expect(seen.y + seen.height).toBeGreaterThan(BOX.y);
    }
    expect(held(fit(BOX, SCREEN), BOX, SCREEN)).toEqual(fit(BOX, SCREEN));
  });

  it("glides from one view to the other", () => {
    const to = { x: 50, y: 60, scale: 2 };
    expect(between(VIEW, to, 0)).toEqual(VIEW);
    expect(between(VIEW, to, 1)).toEqual(to);
    expect(between(VIEW, to, 0.5).scale).toBeCloseTo(1);
  });
});
