/**
 * Where the Units of each Block stand. Blocks are in series, so each is laid out on its own and
 * `scene.ts` stacks them; blocks with the same edges share one layout.
 */
import { type Layers, splitLongEdges } from "./layered/layers";
import { orderLayers } from "./layered/order";
import { placeNodes } from "./layered/place";
import { assignRanks, type Successors } from "./layered/ranks";

/** The size of a Unit's box, in the drawing's own units. */
export const UNIT = { width: 148, height: 36 } as const;

const LAYER_GAP = 30;
const BOX_GAP = 16;
const BEND_GAP = 12;

/** What of a graph decides the drawing. `block` and `successors` are positions. */
export interface GraphShape {
  units: readonly { readonly block: number; readonly successors: readonly number[] }[];
  blocks: readonly { readonly first: number; readonly n: number }[];
}

export interface Point {
  x: number;
  y: number;
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
  // Node 0 is the point above, if there is one; it has the first layer for itself.
  const shift = enters ? 1 : 0;
  const nodes = enters ? [entered, ...successors].map((after) => after.map((s) => s + 1)) : successors;
  const ranks = assignRanks(nodes).map((rank, node) =>
    enters ? (node === 0 ? 0 : Math.max(rank, 1)) : rank,
  );
  const graph = splitLongEdges(nodes, ranks);
  orderLayers(graph);
  const isBox = (node: number) => node >= shift && node < graph.nodes;
  const half = (node: number) => (isBox(node) ? UNIT.width / 2 : 0);
  const x = placeNodes(
    graph,
    (a, b) => half(a) + half(b) + (isBox(a) || isBox(b) ? BOX_GAP : BEND_GAP),
  );
  const axis = x[graph.nodes - 1] ?? 0;
  const layerOf = layerNumbers(graph);
  const spot = (node: number): Spot => {
    const layer = layerOf[node] ?? 0;
    const top = enters
      ? layer === 0 ? 0 : LAYER_GAP + (layer - 1) * (UNIT.height + LAYER_GAP)
      : layer * (UNIT.height + LAYER_GAP);
    return {
      // The point above hangs on the line of the block before.
      x: enters && node === 0 ? 0 : (x[node] ?? 0) - axis,
      top,
      bottom: enters && layer === 0 ? 0 : top + UNIT.height,
    };
  };
  const drawn = graph.routes.map((route) => ({
    from: route.from - shift,
    to: route.to - shift,
    points: polyline(route.path.map(spot)),
  }));
  const spots = [...layerOf.keys()].map((node) => ({ ...spot(node), half: half(node) }));
  const left = Math.min(...spots.map((each) => each.x - each.half), 0);
  const right = Math.max(...spots.map((each) => each.x + each.half), 0);
  return {
    left,
    width: right - left,
    height: Math.max(...spots.map((each) => each.bottom), 0),
    centres: successors.map((_, unit) => {
      const at = spot(unit + shift);
      return { x: at.x, y: (at.top + at.bottom) / 2 };
    }),
    edges: drawn.filter(({ from }) => from >= 0),
    entries: drawn.filter(({ from }) => from < 0).map(({ to, points }) => ({ to, points })),
  };
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

/** Down from one point to another, vertical at both ends; straight if one is above the other. */
export function swing(from: Point, to: Point): Point[] {
  if (Math.abs(from.x - to.x) < 1) return [from, to];
  const bend = (to.y - from.y) * 0.4;
  return [from, { x: from.x, y: from.y + bend }, { x: to.x, y: to.y - bend }, to];
}
