import { describe, expect, it } from "vitest";

import { countCells, large, shapeWords } from "./words";

describe("large", () => {
  it("tells what is too long to read by its power of ten", () => {
    expect(large("123456789")).toBe("123,456,789");
    expect(large("1234567890123")).toBe("1.23 × 10¹²");
  });
});

describe("countCells", () => {
  it("gives counts, or the reason why there are none", () => {
    const counted = { states: 1234, transitions: 5, schedules: "6", stages: 7 };
    expect(countCells(counted)).toMatchObject({ states: "1,234", schedules: "6", exactly: "6" });
    expect(countCells({ more_than: 2_000_000 })).toBe("more than 2,000,000 transitions");
    expect(countCells({ too_wide: "It has 70 units." })).toBe("It has 70 units.");
  });
});

describe("shapeWords", () => {
  it("reads as a shape", () => {
    expect(shapeWords({ shape: [1, 3, 224, 224], dtype: "float32" })).toBe("1 × 3 × 224 × 224 float32");
    expect(shapeWords({ shape: [], dtype: "bool" })).toBe("scalar bool");
  });
});
