/** A layered graph whose edges join neighbouring layers: bends stand where an edge passes one. */
import type { Successors } from "./ranks";

export interface Layers {
  /** Nodes of each layer, in some order; numbers from `nodes` on are bends. */
  layers: number[][];
  nodes: number;
  /** Neighbours in the layer below, and in the layer above. */
  below: number[][];
  above: number[][];
  /** For each edge its nodes from end to end; only the two ends of one that has no bends. */
  routes: { from: number; to: number; path: number[] }[];
}

/** Bends that a layout can be computed with while somebody waits. */
const MAX_BENDS = 20_000;

/**
 * Edges that leave the same node share their bends, as far as they run side by side. If there would
 * be too many bends, the longest edges get none and run straight through.
 */
export function splitLongEdges(successors: Successors, ranks: readonly number[]): Layers {
  const height = ranks.reduce((most, rank) => Math.max(most, rank), -1) + 1;
  const found: Layers = {
    layers: Array.from({ length: height }, () => []),
    nodes: successors.length,
    below: successors.map(() => []),
    above: successors.map(() => []),
    routes: [],
  };
  ranks.forEach((rank, node) => found.layers[rank]?.push(node));
  const longest = longestBent(successors, ranks);
  successors.forEach((after, from) => {
    const chain = [from];
    const byLength = [...after].sort((a, b) => (ranks[a] ?? 0) - (ranks[b] ?? 0));
    for (const to of byLength) {
      const span = (ranks[to] ?? 0) - (ranks[from] ?? 0);
      if (span > longest) {
        found.routes.push({ from, to, path: [from, to] });
        continue;
      }
      while (chain.length < span) chain.push(addBend(found, chain, ranks[from] ?? 0));
      link(found, chain[span - 1] ?? from, to);
      found.routes.push({ from, to, path: [...chain.slice(0, span), to] });
    }
  });
  return found;
}

function addBend(graph: Layers, chain: readonly number[], rank: number): number {
  const bend = graph.below.length;
  graph.below.push([]);
  graph.above.push([]);
  graph.layers[rank + chain.length]?.push(bend);
  link(graph, chain.at(-1) ?? bend, bend);
  return bend;
}

function link(graph: Layers, upper: number, lower: number): void {
  graph.below[upper]?.push(lower);
  graph.above[lower]?.push(upper);
}

/** The span up to which edges get bends, so that all bends together stay within MAX_BENDS. */
function longestBent(successors: Successors, ranks: readonly number[]): number {
  const spans = successors
    .map((after, from) =>
      after.reduce((most, to) => Math.max(most, (ranks[to] ?? 0) - (ranks[from] ?? 0)), 0),
    )
    .sort((a, b) => a - b);
  let bends = 0;
  for (const span of spans) {
    bends += Math.max(span - 1, 0);
    if (bends > MAX_BENDS) return span - 1;
  }
  return Infinity;
}
