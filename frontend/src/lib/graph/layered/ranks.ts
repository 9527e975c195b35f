/** Which layer each node of a DAG stands in. */

export type Successors = readonly (readonly number[])[];

/**
 * Layers from 0 on, every edge from a smaller to a larger one. Nodes stand as high as they can
 * (longest path), except those with more edges below than above: these are lowered, because that
 * shortens more edges than it lengthens. Nodes are numbered in a topological order. `least` is the
 * highest layer that each may stand in.
 */
export function assignRanks(successors: Successors, least?: readonly number[]): number[] {
  const ranks = successors.map((_, node) => least?.[node] ?? 0);
  const above = successors.map(() => 0);
  successors.forEach((after, node) => {
    for (const next of after) {
      ranks[next] = Math.max(ranks[next] ?? 0, (ranks[node] ?? 0) + 1);
      above[next] = (above[next] ?? 0) + 1;
    }
  });
  for (let node = successors.length - 1; node >= 0; node--) {
    const after = successors[node] ?? [];
    if (after.length > (above[node] ?? 0)) {
      ranks[node] = Math.min(...after.map((next) => ranks[next] ?? 0)) - 1;
    }
  }
  return ranks;
}
