/** Who stands beside whom: fewer crossings by barycentres (Sugiyama, Tagawa and Toda, 1981). */
import type { Layers } from "./layers";

const SWEEPS = 12;

/** Orders every layer in place; of all orders that the sweeps pass, the one that crosses least. */
export function orderLayers(graph: Layers): void {
  const place = new Float64Array(graph.below.length);
  depthFirst(graph);
  graph.layers.forEach((layer) => renumber(layer, place));
  let best = graph.layers.map((layer) => [...layer]);
  let fewest = crossings(graph, place);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
    const downwards = sweep % 2 === 0;
    const layers = downwards ? graph.layers : [...graph.layers].reverse();
    const neighbours = downwards ? graph.above : graph.below;
    for (const layer of layers) {
      const wish = new Map(layer.map((node) => [node, mean(neighbours[node] ?? [], place, node)]));
      layer.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0));
      renumber(layer, place);
    }
    const count = crossings(graph, place);
    if (count < fewest) {
      fewest = count;
      best = graph.layers.map((layer) => [...layer]);
    }
  }
  graph.layers = best;
}

function renumber(layer: readonly number[], place: Float64Array): void {
  layer.forEach((node, index) => {
    place[node] = index;
  });
}

/** Where the neighbours stand on average; where the node stands itself if it has none. */
function mean(neighbours: readonly number[], place: Float64Array, node: number): number {
  if (neighbours.length === 0) return place[node] ?? 0;
  return neighbours.reduce((sum, each) => sum + (place[each] ?? 0), 0) / neighbours.length;
}

/** Branches start side by side: each layer in the order in which a depth-first walk meets it. */
function depthFirst(graph: Layers): void {
  const met = new Int32Array(graph.below.length).fill(-1);
  let count = 0;
  const stack = graph.layers.flat().reverse();
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if ((met[node] ?? 0) >= 0) continue;
    met[node] = count++;
    for (const next of [...(graph.below[node] ?? [])].reverse()) {
      if ((met[next] ?? 0) < 0) stack.push(next);
    }
  }
  for (const layer of graph.layers) layer.sort((a, b) => (met[a] ?? 0) - (met[b] ?? 0));
}

/** Pairs of edges that cross between neighbouring layers, counted with a Fenwick tree. */
export function crossings(graph: Layers, place: ArrayLike<number>): number {
  let total = 0;
  graph.layers.forEach((layer, index) => {
    const size = graph.layers[index + 1]?.length ?? 0;
    const tree = new Int32Array(size + 1);
    let passed = 0;
    for (const node of layer) {
      const ends = (graph.below[node] ?? []).map((next) => place[next] ?? 0);
      for (const end of ends) {
        let left = 0;
        for (let i = end + 1; i > 0; i -= i & -i) left += tree[i] ?? 0;
        total += passed - left;
      }
      for (const end of ends) {
        passed++;
        for (let i = end + 1; i <= size; i += i & -i) tree[i] = (tree[i] ?? 0) + 1;
      }
    }
  });
  return total;
}
