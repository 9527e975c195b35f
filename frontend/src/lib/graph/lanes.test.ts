import { describe, expect, it } from "vitest";

import { assignLanes } from "./lanes";

describe("assignLanes", () => {
  it("passes outside of every block that it skips, also of the first and the last", () => {
    const [lane] = assignLanes([{ first: 0, last: 2 }], [50, 300, 80], 20, 10);
    expect(lane).toBe(320);
  });

  it("takes the other side when one is taken, and then goes further out", () => {
    const crossings = Array.from({ length: 4 }, () => ({ first: 0, last: 1 }));
    const lanes = assignLanes(crossings, [50, 50], 20, 10);
    expect(lanes).toEqual([70, -70, 80, -80]);
  });

  it("uses the same place again where nothing runs beside it", () => {
    const lanes = assignLanes(
      [
        { first: 0, last: 1 },
        { first: 2, last: 3 },
      ],
      [50, 50, 50, 50],
      20,
      10,
    );
    expect(lanes).toEqual([70, 70]);
  });

  it("keeps any two that run beside each other apart", () => {
    const widths = Array.from({ length: 12 }, (_, i) => 40 + ((i * 37) % 90));
    const crossings = Array.from({ length: 40 }, (_, i) => {
      const first = (i * 7) % 10;
      return { first, last: Math.min(11, first + 1 + ((i * 5) % 6)) };
    });
    const lanes = assignLanes(crossings, widths, 20, 10);
    crossings.forEach((a, i) => {
      const widest = Math.max(...widths.slice(a.first, a.last + 1));
      expect(Math.abs(lanes[i]!)).toBeGreaterThanOrEqual(widest + 20);
      crossings.slice(i + 1).forEach((b, offset) => {
        const beside = a.first <= b.last && b.first <= a.last;
        const gap = Math.abs(lanes[i]! - lanes[i + 1 + offset]!);
        if (beside) expect(gap).toBeGreaterThanOrEqual(10);
      });
    });
  });
});
