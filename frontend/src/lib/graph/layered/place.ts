/** Where in its layer each node stands, once the order is decided. */
import type { Layers } from "./layers";

const SWEEPS = 10;

/** A bend wants to be straight above and below its neighbours more than a box does. */
const BEND_WEIGHT = 6;

/**
 * An x for the middle of every node and bend. Every layer in turn comes as close, by least squares,
 * to where its neighbours would have it as the distances allow; `distance(a, b)` is what must lie
 * between the middles of `a` and `b` to its right.
 */
export function placeNodes(graph: Layers, distance: (a: number, b: number) => number): Float64Array {
  const x = new Float64Array(graph.below.length);
  for (const layer of graph.layers) spread(layer, x, distance);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const downwards = sweep % 2 === 0;
    const last = sweep >= SWEEPS - 2;
    for (const layer of downwards ? graph.layers : [...graph.layers].reverse()) {
      align(graph, layer, x, distance, last ? "both" : downwards ? "above" : "below");
    }
  }
  straighten(graph, x, distance);
  return x;
}

/**
 * Puts the bends that follow each other on one vertical line, as long as there is one that their
 * neighbours leave free.
 */
function straighten(
  graph: Layers,
  x: Float64Array,
  distance: (a: number, b: number) => number,
): void {
  const left = new Map<number, number>();
  const right = new Map<number, number>();
  for (const layer of graph.layers) {
    layer.slice(1).forEach((node, index) => {
      left.set(node, layer[index] ?? node);
      right.set(layer[index] ?? node, node);
    });
  }
  for (const chain of chainsOfBends(graph)) {
    for (let start = 0; start < chain.length; ) {
      let [lowest, highest, end, sum] = [-Infinity, Infinity, start, 0];
      for (; end < chain.length; end++) {
        const bend = chain[end] ?? 0;
        const [before, after] = [left.get(bend), right.get(bend)];
        const least = before === undefined ? -Infinity : (x[before] ?? 0) + distance(before, bend);
        const most = after === undefined ? Infinity : (x[after] ?? 0) - distance(bend, after);
        if (Math.max(lowest, least) > Math.min(highest, most) && end > start) break;
        [lowest, highest] = [Math.max(lowest, least), Math.min(highest, most)];
        sum += x[bend] ?? 0;
      }
      const line = Math.min(Math.max(sum / (end - start), lowest), Math.max(lowest, highest));
      for (const bend of chain.slice(start, end)) x[bend] = line;
      start = end;
    }
  }
}

/** Runs of bends, each below the one before. */
function chainsOfBends(graph: Layers): number[][] {
  const chains: number[][] = [];
  for (let bend = graph.nodes; bend < graph.below.length; bend++) {
    const [above] = graph.above[bend] ?? [];
    // Bends are numbered downwards, one chain after the other.
    if (above === bend - 1 && above >= graph.nodes) chains.at(-1)?.push(bend);
    else chains.push([bend]);
  }
  return chains;
}

/** Side by side, around 0. */
function spread(
  layer: readonly number[],
  x: Float64Array,
  distance: (a: number, b: number) => number,
): void {
  const offsets = offsetsOf(layer, distance);
  const middle = (offsets.at(-1) ?? 0) / 2;
  layer.forEach((node, index) => {
    x[node] = (offsets[index] ?? 0) - middle;
  });
}

function offsetsOf(layer: readonly number[], distance: (a: number, b: number) => number): number[] {
  let at = 0;
  return layer.map((node, index) => {
    if (index > 0) at += distance(layer[index - 1] ?? node, node);
    return at;
  });
}

function align(
  graph: Layers,
  layer: readonly number[],
  x: Float64Array,
  distance: (a: number, b: number) => number,
  side: "above" | "below" | "both",
): void {
  const offsets = offsetsOf(layer, distance);
  const wishes: number[] = [];
  const weights: number[] = [];
  layer.forEach((node, index) => {
    const neighbours = [
      ...(side === "below" ? [] : (graph.above[node] ?? [])),
      ...(side === "above" ? [] : (graph.below[node] ?? [])),
    ];
    const wish =
      neighbours.length === 0
        ? (x[node] ?? 0)
        : neighbours.reduce((sum, each) => sum + (x[each] ?? 0), 0) / neighbours.length;
    wishes.push(wish - (offsets[index] ?? 0));
    weights.push(neighbours.length === 0 ? 0.1 : node >= graph.nodes ? BEND_WEIGHT : 1);
  });
  isotonic(wishes, weights).forEach((value, index) => {
    x[layer[index] ?? 0] = value + (offsets[index] ?? 0);
  });
}

/**
 * The non-decreasing values closest to `wishes` by weighted least squares (pool adjacent
 * violators): the least that neighbours in conflict have to give way.
 */
export function isotonic(wishes: readonly number[], weights: readonly number[]): number[] {
  const pools: { value: number; weight: number; size: number }[] = [];
  wishes.forEach((wish, index) => {
    let pool = { value: wish, weight: weights[index] ?? 1, size: 1 };
    for (let last = pools.at(-1); last && last.value > pool.value; last = pools.at(-1)) {
      pools.pop();
      const weight = last.weight + pool.weight;
      pool = {
        value: (last.value * last.weight + pool.value * pool.weight) / weight,
        weight,
        size: last.size + pool.size,
      };
    }
    pools.push(pool);
  });
  return pools.flatMap(({ value, size }) => new Array<number>(size).fill(value));
}
