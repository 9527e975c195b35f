import { describe, expect, it } from "vitest";

import { choiceWords, graphChoice, parseGraphSearch } from "./graphChoice";

describe("the address of a graph", () => {
  it("drops what is no batch size, length or granularity", () => {
    expect(parseGraphSearch({ batch: 8, length: 77, granularity: "operator", other: 1 })).toEqual({
      batch: 8,
      length: 77,
      granularity: "operator",
    });
    for (const batch of [0, 4097, 1.5, "8", null]) expect(parseGraphSearch({ batch })).toEqual({});
    for (const granularity of ["atom", "toString", 3]) {
      expect(parseGraphSearch({ granularity })).toEqual({});
    }
  });

  it("means batch 1 and fused operators where it says nothing", () => {
    expect(graphChoice({})).toEqual({ batch_size: 1, granularity: "fused" });
    expect(graphChoice({ length: 5 })).toMatchObject({ sequence_length: 5 });
    expect(choiceWords(graphChoice({ batch: 2, length: 5 }))).toBe(
      "batch 2, sequence length 5, fused operators",
    );
  });
});
