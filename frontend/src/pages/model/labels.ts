/** What the drawing writes into its boxes. */
import type { GraphFacts } from "@/api/types";
import { type ColourMode, costScale, familyOf, type Scheme, sequential } from "@/lib/graph/colours";
import type { Label } from "@/lib/graph/paint";
import { blockSize, blockTitle, unitNote } from "@/lib/graph/words";

export const mostFlops = (facts: GraphFacts) =>
  facts.units.reduce((most, unit) => Math.max(most, unit.flops), 0);

export function labelUnits(facts: GraphFacts, mode: ColourMode, scheme: Scheme): Label[] {
  const most = mostFlops(facts);
  return facts.units.map((unit) => ({
    title: unit.name,
    note: unitNote(unit),
    colour:
      mode === "kind"
        ? familyOf(unit.kind).colour
        : sequential(costScale(unit.flops, most), scheme),
  }));
}

export function labelBlocks(facts: GraphFacts): Label[] {
  return facts.blocks.map((block, index) => ({
    title: blockTitle(index),
    note:
      block.equal_to === null
        ? blockSize(block)
        : `${blockSize(block)}, like block ${block.equal_to}`,
    colour: "",
  }));
}
