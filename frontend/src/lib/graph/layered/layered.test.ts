import { describe, expect, it } from "vitest";

import { splitLongEdges } from "./layers";
import { crossings, orderLayers } from "./order";
import { isotonic, placeNodes } from "./place";
import { assignRanks, type Successors } from "./ranks";

/** Numbers that look random and are the same every time. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

function randomGraph(seed: number, nodes: number): number[][] {
  const random = randomNumbers(seed);
  return Array.from({ length: nodes }, (_, node) => {
    const after = Array.from({ length: nodes - node - 1 }, (_, i) => node + 1 + i);
    return after.filter((next) => random() < 2.5 / (next - node + 2));
  });
}

const SEEDS = Array.from({ length: 20 }, (_, seed) => seed + 1);
const GRAPHS: Successors[] = SEEDS.map((seed) => randomGraph(seed, 5 + 3 * seed));

describe("assignRanks", () => {
  it("leads every edge down, from the first layer on", () => {
    for (const graph of GRAPHS) {
      const ranks = assignRanks(graph);
      expect(Math.min(...ranks)).toBeGreaterThanOrEqual(0);
      graph.forEach((after, node) => {
        for (const next of after) expect(ranks[next]!).toBeGreaterThan(ranks[node]!);
      });
    }
  });

  it("puts what is only read next to its reader", () => {
    expect(assignRanks([[1], [2], [4], [4], []])).toEqual([0, 1, 2, 2, 3]);
  });
});

describe("splitLongEdges", () => {
  it("joins neighbouring layers only, and every edge along its route", () => {
    for (const graph of GRAPHS) {
      const ranks = assignRanks(graph);
      const split = splitLongEdges(graph, ranks);
      const layer = new Map(split.layers.flatMap((all, index) => all.map((node) => [node, index])));
      expect(layer.size).toBe(split.below.length);
      // Thousands of edges: an expectation for each would take most of the test's time.
      const wrong = split.below.flatMap((after, node) =>
        after
          .filter(
            (next) =>
              layer.get(next) !== layer.get(node)! + 1 || !split.above[next]!.includes(node),
          )
          .map((next) => `${node} ${next}`),
      );
      expect(wrong).toEqual([]);
      expect(split.routes.map(({ from, to }) => `${from} ${to}`).sort()).toEqual(
        graph.flatMap((after, from) => after.map((to) => `${from} ${to}`)).sort(),
      );
      const leaps = split.routes.filter(({ path }) =>
        path.slice(1).some((node, index) => !split.below[path[index]!]!.includes(node)),
      );
      expect(leaps).toEqual([]);
    }
  });

  it("shares bends among edges that leave the same node", () => {
    const split = splitLongEdges([[1, 2, 3], [2], [3], []], [0, 1, 2, 3]);
    expect(split.below.length - split.nodes).toBe(2);
  });

  it("gives up bends rather than its time", () => {
    const nodes = 900;
    const graph = Array.from({ length: nodes }, (_, node) =>
      node + 1 < nodes ? [...new Set([node + 1, nodes - 1])] : [],
    );
    const split = splitLongEdges(
      graph,
      graph.map((_, node) => node),
    );
    expect(split.below.length).toBeLessThan(25_000);
    expect(split.routes.some(({ path }) => path.length === 2)).toBe(true);
    expect(split.routes).toHaveLength(2 * nodes - 3);
  });
});

describe("orderLayers", () => {
  it("counts crossings as comparing every two edges does", () => {
    for (const graph of GRAPHS) {
      const split = splitLongEdges(graph, assignRanks(graph));
      const place: number[] = [];
      for (const layer of split.layers) layer.forEach((node, index) => (place[node] = index));
      let expected = 0;
      for (const layer of split.layers) {
        const edges = layer.flatMap((node) => split.below[node]!.map((next) => [node, next]));
        edges.forEach(([a, b], index) => {
          for (const [c, d] of edges.slice(index + 1)) {
            if ((place[a!]! - place[c!]!) * (place[b!]! - place[d!]!) < 0) expected++;
          }
        });
      }
      expect(crossings(split, place)).toBe(expected);
    }
  });

  it("keeps every node in its layer, and leaves no crossing where branches can be parallel", () => {
    // Four branches of three, numbered across each other.
    const graph = [[1, 2, 3, 4], [8], [7], [6], [5], [9], [10], [11], [12], [13], [13], [13], [13], []];
    const split = splitLongEdges(graph, assignRanks(graph));
    const before = split.layers.map((layer) => [...layer].sort());
    orderLayers(split);
    expect(split.layers.map((layer) => [...layer].sort())).toEqual(before);
    const place: number[] = [];
    for (const layer of split.layers) layer.forEach((node, index) => (place[node] = index));
    expect(crossings(split, place)).toBe(0);
  });
});

describe("placeNodes", () => {
  it("keeps the order and the distances, whatever the neighbours wish", () => {
    for (const graph of GRAPHS) {
      const split = splitLongEdges(graph, assignRanks(graph));
      orderLayers(split);
      const x = placeNodes(split, (a, b) => 10 + (a < split.nodes ? 5 : 0) + (b < split.nodes ? 5 : 0));
      const crowded = split.layers.flatMap((layer) =>
        layer.slice(1).filter((node, index) => {
          const before = layer[index]!;
          const least = 10 + (before < split.nodes ? 5 : 0) + (node < split.nodes ? 5 : 0);
          return !(x[node]! - x[before]! >= least - 1e-6);
        }),
      );
      expect(crowded).toEqual([]);
    }
  });

  it("draws a long edge beside a chain straight", () => {
    const split = splitLongEdges([[1, 4], [2], [3], [4], []], [0, 1, 2, 3, 4]);
    orderLayers(split);
    const x = placeNodes(split, () => 20);
    const bends = [...x.slice(split.nodes)];
    expect(bends).toHaveLength(3);
    expect(new Set(bends.map((each) => each.toFixed(6))).size).toBe(1);
  });
});

describe("isotonic", () => {
  it("is the closest of all that do not decrease", () => {
    expect(isotonic([1, 3, 2, 5], [1, 1, 1, 1])).toEqual([1, 2.5, 2.5, 5]);
    expect(isotonic([4, 0], [3, 1])).toEqual([3, 3]);
    const random = randomNumbers(7);
    for (let round = 0; round < 30; round++) {
      const wishes = Array.from({ length: 6 }, () => random() * 10);
      const weights = wishes.map(() => 0.5 + random());
      const found = isotonic(wishes, weights);
      const cost = (values: number[]) =>
        values.reduce((sum, value, i) => sum + weights[i]! * (value - wishes[i]!) ** 2, 0);
      found.slice(1).forEach((value, i) => expect(value).toBeGreaterThanOrEqual(found[i]! - 1e-12));
      for (let trial = 0; trial < 50; trial++) {
        const other = found.map((value) => value + (random() - 0.5)).sort((a, b) => a - b);
        expect(cost(other)).toBeGreaterThanOrEqual(cost(found) - 1e-9);
      }
    }
  });
});
