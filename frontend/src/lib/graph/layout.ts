/**
 * Where the Units of each Block stand. Blocks are in series, so each is laid out on its own and
 * `scene.ts` stacks them; blocks with the same edges share one layout.
 */
import { type Point, swing } from "./geometry";
import { type Layers, splitLongEdges } from "./layered/layers";
import { orderLayers } from "./layered/order";
import { placeNodes } from "./layered/place";
import { assignRanks, type Successors } from "./layered/ranks";
import { BEND_GAP, BOX_GAP, LAYER_GAP, UNIT } from "./sizes";

/** What of a graph decides the drawing. `block` and `successors` are positions. */
export interface GraphShape {
  units: readonly { readonly block: number; readonly successors: readonly number[] }[];
  blocks: readonly { readonly first: number; readonly n: number }[];
}

/** An edge inside a block; `from` and `to` count from the block's first Unit. */
export interface InnerEdge {
  from: number;
  to: number;
  points: Point[];
}

/**
 * `x` counts from the middle of the block's last Unit, so that blocks hang on one line, and `y`
 * from its upper edge. `entries` lead from one point of that edge to the Units that read what the
 * block before ends with.
 */
export interface BlockLayout {
  left: number;
  width: number;
  height: number;
  centres: Point[];
  edges: InnerEdge[];
  entries: Omit<InnerEdge, "from">[];
}

/** One layout for each block, in order; blocks with the same edges share the object. */
export function layoutBlocks(graph: GraphShape): BlockLayout[] {
  const known = new Map<string, BlockLayout>();
  return graph.blocks.map(({ first, n }) => {
    const inner = innerSuccessors(graph, first, n);
    const entered = n > 1 ? enteredUnits(graph, first, n) : [];
    const key = JSON.stringify([inner, entered]);
    const found = known.get(key) ?? layoutBlock(inner, entered);
    known.set(key, found);
    return found;
  });
}

/** For each Unit of the block, the successors that are in it too, counted from its first Unit. */
export function innerSuccessors(graph: GraphShape, first: number, n: number): number[][] {
  return graph.units
    .slice(first, first + n)
    .map((unit) => unit.successors.filter((s) => s < first + n).map((s) => s - first));
}

/** The Units of the block that read what the block before it ends with. */
function enteredUnits(graph: GraphShape, first: number, n: number): number[] {
  const before = graph.units[first - 1]?.successors ?? [];
  return before.filter((s) => s >= first && s < first + n).map((s) => s - first);
}

/** Layers from top to bottom, under a point that leads to `entered`. */
export function layoutBlock(successors: Successors, entered: readonly number[] = []): BlockLayout {
  const enters = entered.length > 0;
  const { graph, shift } = layersOf(successors, entered);
  orderLayers(graph);
  const isBox = (node: number) => node >= shift && node < graph.nodes;
  const half = (node: number) => (isBox(node) ? UNIT.width / 2 : 0);
  const gap = (a: number, b: number) => (isBox(a) || isBox(b) ? BOX_GAP : BEND_GAP);
  const x = placeNodes(graph, (a, b) => half(a) + half(b) + gap(a, b));
  const axis = x[graph.nodes - 1] ?? 0;
  const layerOf = layerNumbers(graph);
  const spot = (node: number): Spot =>
    // The point above hangs on the line of the block before.
    enters && node === 0
      ? { x: 0, top: 0, bottom: 0 }
      : { x: (x[node] ?? 0) - axis, ...extent(layerOf[node] ?? 0, enters) };
  const routes = graph.routes.map((route) => ({
    from: route.from - shift,
    to: route.to - shift,
    points: polyline(route.path.map(spot)),
  }));
  const spots = [...layerOf.keys()].map((node) => ({ ...spot(node), half: half(node) }));
  const left = spots.reduce((least, each) => Math.min(least, each.x - each.half), 0);
  const right = spots.reduce((most, each) => Math.max(most, each.x + each.half), 0);
  return {
    left,
    width: right - left,
    height: spots.reduce((most, each) => Math.max(most, each.bottom), 0),
    centres: successors.map((_, unit) => {
      const { x: middle, top, bottom } = spot(unit + shift);
      return { x: middle, y: (top + bottom) / 2 };
    }),
    edges: routes.filter(({ from }) => from >= 0),
    entries: routes.filter(({ from }) => from < 0).map(({ to, points }) => ({ to, points })),
  };
}

/** Where something is entered, node 0 is the point above and has the first layer for itself. */
function layersOf(
  successors: Successors,
  entered: readonly number[],
): { graph: Layers; shift: number } {
  if (entered.length === 0) {
    return { graph: splitLongEdges(successors, assignRanks(successors)), shift: 0 };
  }
  const nodes = [entered, ...successors].map((after) => after.map((unit) => unit + 1));
  const below = nodes.map((_, node) => (node === 0 ? 0 : 1));
  const ranks = assignRanks(nodes, below);
  ranks[0] = 0;
  return { graph: splitLongEdges(nodes, ranks), shift: 1 };
}

/** From where to where a layer reaches; the point above, if there is one, takes no height. */
function extent(layer: number, enters: boolean): { top: number; bottom: number } {
  const pitch = UNIT.height + LAYER_GAP;
  const top = enters ? LAYER_GAP + (layer - 1) * pitch : layer * pitch;
  return { top, bottom: top + UNIT.height };
}

function layerNumbers(graph: Layers): Int32Array {
  const numbers = new Int32Array(graph.below.length);
  graph.layers.forEach((layer, index) => {
    for (const node of layer) numbers[node] = index;
  });
  return numbers;
}

/** A node's middle and the extent of its layer. */
interface Spot {
  x: number;
  top: number;
  bottom: number;
}

/** From the lower edge of the first to the upper edge of the last, straight past those between. */
function polyline(path: readonly Spot[]): Point[] {
  const points: Point[] = [];
  path.slice(1).forEach((next, index) => {
    const before = path[index] ?? next;
    points.push(...swing({ x: before.x, y: before.bottom }, { x: next.x, y: next.top }));
  });
  return points;
}
