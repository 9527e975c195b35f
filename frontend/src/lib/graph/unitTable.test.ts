import { describe, expect, it } from "vitest";

import type { Unit } from "@/api/types";

import { operatorNames, sortedBy, unitRows } from "./unitTable";

const unit = (name: string, fields: Partial<Unit> = {}): Unit => ({
  name,
  kind: "conv",
  operators: ["aten.conv2d.default"],
  flops: 0,
  bytes_moved: 0,
  parameters: 0,
  intensity: 0,
  block: 0,
  successors: [],
  outputs: [],
  ...fields,
});

const UNITS = [
  unit("conv_10", { flops: 5, operators: ["aten.conv2d.default", "aten.relu.default"] }),
  unit("conv_9", { flops: 7, block: 1 }),
  unit("pool", { kind: "pool", flops: 5, operators: ["aten.max_pool2d.default"], block: 1 }),
];
const ALL = { text: "", kind: null, block: null };
const names = (rows: { unit: Unit }[]) => rows.map((row) => row.unit.name);

describe("unitRows", () => {
  it("keeps the graph's order, and ties in it", () => {
    expect(names(unitRows(UNITS, ALL, { column: "position", descending: false }))).toEqual([
      "conv_10",
      "conv_9",
      "pool",
    ]);
    expect(names(unitRows(UNITS, ALL, { column: "flops", descending: true }))).toEqual([
      "conv_9",
      "conv_10",
      "pool",
    ]);
  });

  it("sorts names as people count", () => {
    expect(names(unitRows(UNITS, ALL, { column: "name", descending: false }))).toEqual([
      "conv_9",
      "conv_10",
      "pool",
    ]);
  });

  it("filters by name, operator, kind and block", () => {
    const order = { column: "position", descending: false } as const;
    expect(names(unitRows(UNITS, { ...ALL, text: " RELU " }, order))).toEqual(["conv_10"]);
    expect(names(unitRows(UNITS, { ...ALL, text: "conv_9" }, order))).toEqual(["conv_9"]);
    expect(names(unitRows(UNITS, { ...ALL, kind: "pool" }, order))).toEqual(["pool"]);
    expect(names(unitRows(UNITS, { ...ALL, kind: "conv", block: 1 }, order))).toEqual(["conv_9"]);
    const found = unitRows(UNITS, { ...ALL, block: 1 }, { column: "name", descending: true });
    expect(found.map((row) => row.position)).toEqual([2, 1]);
  });
});

describe("sortedBy", () => {
  it("starts with the largest number, the first word, and turns round", () => {
    const start = { column: "position", descending: false } as const;
    expect(sortedBy("flops", start)).toEqual({ column: "flops", descending: true });
    expect(sortedBy("name", start)).toEqual({ column: "name", descending: false });
    expect(sortedBy("position", start)).toEqual({ column: "position", descending: true });
  });
});

describe("operatorNames", () => {
  it("says what repeats once", () => {
    const operators = ["aten.conv2d.default", "aten.relu.default", "aten.relu.default"];
    expect(operatorNames(unit("u", { operators }))).toBe("conv2d, relu ×2");
  });
});
