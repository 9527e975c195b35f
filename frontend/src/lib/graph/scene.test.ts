import { describe, expect, it } from "vitest";

import { type GraphShape, layoutBlocks } from "./layout";
import { blockNode } from "./nodes";
import { buildScene, hitAt, pathEdges, type Scene } from "./scene";
import { UNIT } from "./sizes";

/** 0 → {1, 2} → 3 → 4, and 0 → 4 skips the block of 1, 2 and 3. */
const GRAPH: GraphShape = {
  units: [
    { block: 0, successors: [1, 2, 4] },
    { block: 1, successors: [3] },
    { block: 1, successors: [3] },
    { block: 1, successors: [4] },
    { block: 2, successors: [] },
  ],
  blocks: [
    { first: 0, n: 1 },
    { first: 1, n: 3 },
    { first: 4, n: 1 },
  ],
};

const scene = (...collapsed: number[]) =>
  buildScene(GRAPH, layoutBlocks(GRAPH), new Set(collapsed));
const ends = ({ edges }: Scene) => edges.map(({ from, to }) => `${from} ${to}`).sort();
const box = ({ units }: Scene, unit: number) => units.find((each) => each.unit === unit)!;

describe("buildScene", () => {
  it("draws every unit and every edge once", () => {
    const open = scene();
    expect(open.units.map(({ unit }) => unit).sort()).toEqual([0, 1, 2, 3, 4]);
    expect(ends(open)).toEqual(["0 1", "0 2", "0 4", "1 3", "2 3", "3 4"]);
  });

  it("stacks the blocks without overlap and frames those of several units", () => {
    const { blockBounds, blocks } = scene();
    expect(blocks).toMatchObject([{ block: 1, collapsed: false }]);
    blockBounds.slice(1).forEach((bounds, index) => {
      const above = blockBounds[index]!;
      expect(bounds.y).toBeGreaterThan(above.y + above.height);
    });
  });

  it("keeps the units of a block within its frame", () => {
    const open = scene();
    const frame = open.blocks[0]!;
    for (const unit of [1, 2, 3]) {
      const { x, y, width, height } = box(open, unit);
      expect(x).toBeGreaterThan(frame.x);
      expect(x + width).toBeLessThan(frame.x + frame.width);
      expect(y).toBeGreaterThan(frame.y);
      expect(y + height).toBeLessThan(frame.y + frame.height);
    }
  });

  it("leads an edge that skips a block around it", () => {
    const open = scene();
    const frame = open.blocks[0]!;
    const skipping = open.edges.find(({ from, to }) => from === 0 && to === 4)!;
    const middle = frame.y + frame.height / 2;
    const passing = skipping.points.filter(
      (point, index) => index > 0 && skipping.points[index - 1]!.y < middle && point.y > middle,
    );
    expect(passing).toHaveLength(1);
    expect(Math.abs(passing[0]!.x)).toBeGreaterThan(frame.width / 2);
  });

  it("begins and ends every edge at its boxes", () => {
    const open = scene();
    for (const { from, to, points } of open.edges) {
      const [start, end] = [box(open, from), box(open, to)];
      const [first, last] = [points[0]!, points.at(-1)!];
      expect(first.x).toBeGreaterThanOrEqual(start.x - 0.01);
      expect(first.x).toBeLessThanOrEqual(start.x + UNIT.width + 0.01);
      expect(last.x).toBeGreaterThanOrEqual(end.x - 0.01);
      expect(last.x).toBeLessThanOrEqual(end.x + UNIT.width + 0.01);
      expect(Math.abs(first.y - (start.y + UNIT.height / 2))).toBeLessThanOrEqual(UNIT.height / 2);
      expect(Math.abs(last.y - (end.y + UNIT.height / 2))).toBeLessThanOrEqual(UNIT.height / 2);
    }
  });

  it("draws a collapsed block as one box with one edge for many", () => {
    const closed = scene(1);
    expect(closed.units.map(({ unit }) => unit)).toEqual([0, 4]);
    expect(closed.blocks).toMatchObject([{ block: 1, collapsed: true }]);
    expect(ends(closed)).toEqual([`${blockNode(1)} 4`, `0 ${blockNode(1)}`, "0 4"].sort());
    expect([...closed.nodeOf]).toEqual([0, blockNode(1), blockNode(1), blockNode(1), 4]);
    expect(closed.bounds.height).toBeLessThan(scene().bounds.height);
  });

  it("does not collapse a block of one unit", () => {
    expect(scene(0, 2).units).toHaveLength(5);
  });
});

describe("pathEdges", () => {
  it("finds the edges of a path, also through a collapsed block", () => {
    const found = (drawn: Scene) => pathEdges(drawn, [0, 2, 3, 4]).map(({ from, to }) => [from, to]);
    expect(found(scene()).sort()).toEqual([
      [0, 2],
      [2, 3],
      [3, 4],
    ]);
    expect(found(scene(1)).sort()).toEqual([
      [blockNode(1), 4],
      [0, blockNode(1)],
    ]);
    expect(pathEdges(scene(), [])).toEqual([]);
  });
});

describe("hitAt", () => {
  it("finds units, captions and collapsed blocks, and nothing beside them", () => {
    const open = scene();
    const { x, y } = box(open, 2);
    const frame = open.blocks[0]!;
    expect(hitAt(open, { x: x + 5, y: y + 5 })).toEqual({ unit: 2 });
    expect(hitAt(open, { x: frame.x + 5, y: frame.y + 5 })).toEqual({ block: 1, fold: true });
    expect(hitAt(open, { x: frame.x + 60, y: frame.y + 5 })).toEqual({ block: 1, fold: false });
    expect(hitAt(open, { x: frame.x - 5, y: frame.y + 5 })).toBeNull();
    const closed = scene(1);
    const { y: top, height } = closed.blocks[0]!;
    expect(hitAt(closed, { x: 0, y: top + height / 2 })).toEqual({ block: 1, fold: false });
  });
});
