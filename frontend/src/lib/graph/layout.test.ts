import { describe, expect, it } from "vitest";

import { type GraphShape, innerSuccessors, layoutBlock, layoutBlocks } from "./layout";
import { UNIT } from "./sizes";

/** Two diamonds in series: 0 | 1 2 3 4 | 5 6 7 8. */
const DIAMONDS: GraphShape = {
  units: [
    { block: 0, successors: [1, 2, 3] },
    { block: 1, successors: [4] },
    { block: 1, successors: [4] },
    { block: 1, successors: [4] },
    { block: 1, successors: [5, 6, 7] },
    { block: 2, successors: [8] },
    { block: 2, successors: [8] },
    { block: 2, successors: [8] },
    { block: 2, successors: [] },
  ],
  blocks: [
    { first: 0, n: 1 },
    { first: 1, n: 4 },
    { first: 5, n: 4 },
  ],
};

describe("layoutBlock", () => {
  it("puts every unit below those that it waits for, and none over another", () => {
    const successors = [[1, 2], [3], [3, 4], [5], [5], []];
    const { centres } = layoutBlock(successors);
    successors.forEach((after, unit) => {
      for (const successor of after) {
        expect(centres[successor]!.y - centres[unit]!.y).toBeGreaterThan(UNIT.height);
      }
    });
    for (const [i, a] of centres.entries()) {
      for (const b of centres.slice(i + 1)) {
        const apart = Math.abs(a.x - b.x) >= UNIT.width || Math.abs(a.y - b.y) >= UNIT.height;
        expect(apart).toBe(true);
      }
    }
  });

  it("keeps everything within its own size, counted from the last unit", () => {
    const { left, width, height, centres, edges } = layoutBlock([[1, 2, 3], [4], [4], [4], []]);
    expect(centres.at(-1)!.x).toBe(0);
    for (const { x, y } of [...centres, ...edges.flatMap((edge) => edge.points)]) {
      expect(x).toBeGreaterThanOrEqual(left);
      expect(x).toBeLessThanOrEqual(left + width);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y).toBeLessThanOrEqual(height);
    }
    expect(edges.map(({ from, to }) => [from, to])).toEqual([
      [0, 1],
      [0, 2],
      [0, 3],
      [1, 4],
      [2, 4],
      [3, 4],
    ]);
  });

  it("leads from one point above to what is entered, and only to that", () => {
    const { entries, edges, centres } = layoutBlock([[2], [2], []], [0, 1]);
    expect(entries.map(({ to }) => to)).toEqual([0, 1]);
    const starts = entries.map(({ points }) => points[0]!);
    for (const start of starts) {
      expect(start.y).toBeCloseTo(0);
      expect(start.y).toBeLessThan(centres[0]!.y - UNIT.height / 2);
    }
    expect(edges.every(({ from }) => Number.isInteger(from))).toBe(true);
  });
});

describe("layoutBlock of what is entered from above and from elsewhere", () => {
  it("keeps the point above over every unit, and every unit over its readers", () => {
    // 0 and 3 are entered; 1 is read from elsewhere and stands over 2.
    const successors = [[4], [2], [4], [4], []];
    const { centres, entries } = layoutBlock(successors, [0, 3]);
    successors.forEach((after, unit) => {
      expect(centres[unit]!.y).toBeGreaterThan(UNIT.height / 2);
      for (const next of after) expect(centres[next]!.y).toBeGreaterThan(centres[unit]!.y);
    });
    expect(entries.map(({ points }) => points[0])).toEqual([
      { x: 0, y: 0 },
      { x: 0, y: 0 },
    ]);
  });
});

describe("layoutBlocks", () => {
  it("lays blocks with the same edges out once", () => {
    const layouts = layoutBlocks(DIAMONDS);
    expect(layouts).toHaveLength(3);
    expect(layouts[1]).toBe(layouts[2]);
    expect(layouts[0]).not.toBe(layouts[1]);
    expect(layouts[1]!.entries).toHaveLength(3);
    expect(layouts[0]!.centres).toHaveLength(1);
  });

  it("counts from the first unit of the block and drops what leaves it", () => {
    expect(innerSuccessors(DIAMONDS, 1, 4)).toEqual([[3], [3], [3], []]);
  });
});
