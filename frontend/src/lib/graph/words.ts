/** What the page says of Units and Blocks. */
import type { Block, BlockCount, GraphFacts, Unit } from "@/api/types";
import { count, quantity } from "@/lib/format";

/** `n = 9, d = 4`. */
export const blockSize = (block: Block) => `n = ${block.n}, d = ${block.width}`;

export const blockTitle = (index: number) => `Block ${index}`;

/** `conv · 231 MFLOPs`. */
export const unitNote = (unit: Unit) =>
  unit.flops > 0 ? `${unit.kind} · ${quantity(unit.flops)}FLOPs` : unit.kind;

export const shapeWords = ({ shape, dtype }: { shape: readonly number[]; dtype: string }) =>
  `${shape.length > 0 ? shape.join(" × ") : "scalar"} ${dtype}`;

/** Positions of the Units whose outputs each Unit reads. */
export function predecessors(facts: GraphFacts): number[][] {
  const before: number[][] = facts.units.map(() => []);
  facts.units.forEach((unit, position) => {
    for (const successor of unit.successors) before[successor]?.push(position);
  });
  return before;
}

/** Decimal digits beyond which a number is told by its power of ten. */
const DIGITS = 9;

/** `12,345`, or `1.23 × 10²⁹` of a decimal string that is longer than anyone reads. */
export function large(decimal: string): string {
  if (decimal.length <= DIGITS) return count(Number(decimal));
  const power = [...String(decimal.length - 1)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");
  return `${decimal[0]}.${decimal.slice(1, 3)} × 10${power}`;
}

export interface CountCells {
  states: string;
  transitions: string;
  schedules: string;
  /** All digits. */
  exactly: string;
  stages: string;
}

/** The counts of a block, or the sentence that says why there are none. */
export function countCells(counted: BlockCount): CountCells | string {
  if ("too_wide" in counted) return counted.too_wide;
  if ("more_than" in counted) return `more than ${count(counted.more_than)} transitions`;
  return {
    states: count(counted.states),
    transitions: count(counted.transitions),
    schedules: large(counted.schedules),
    exactly: counted.schedules,
    stages: count(counted.stages),
  };
}
