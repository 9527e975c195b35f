/**
 * Where the Units of each Block stand. Blocks are in series, so each is laid out on its own and
 * `scene.ts` stacks them; blocks with the same edges share one layout.
 */
import { graphlib, layout } from "@dagrejs/dagre";

/** The size of a Unit's box, in the drawing's own units. */
export const UNIT = { width: 148, height: 36 } as const;

const RANK_GAP = 30;
const NODE_GAP = 16;

/** Network simplex gives shorter edges, but takes more than a second from here on. */
const SIMPLEX_UNITS = 300;

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
 * Coordinates count from the middle of the block's upper edge. `entries` lead from one point of
 * that edge to the Units that read what the block before ends with.
 */
export interface BlockLayout {
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

const ENTRY = "entry";

/** Layers from top to bottom (Sugiyama), by dagre, under a point that leads to `entered`. */
export function layoutBlock(
  successors: readonly (readonly number[])[],
  entered: readonly number[] = [],
): BlockLayout {
  const graph = new graphlib.Graph();
  graph.setGraph({
    ranksep: RANK_GAP,
    nodesep: NODE_GAP,
    ranker: successors.length > SIMPLEX_UNITS ? "tight-tree" : "network-simplex",
  });
  successors.forEach((_, unit) => graph.setNode(String(unit), { ...UNIT }));
  successors.forEach((after, unit) => {
    for (const successor of after) graph.setEdge(String(unit), String(successor), {});
  });
  if (entered.length > 0) graph.setNode(ENTRY, { width: 0, height: 0 });
  for (const unit of entered) graph.setEdge(ENTRY, String(unit), {});
  layout(graph);
  const { width = UNIT.width, height = UNIT.height } = graph.graph();
  const centred = ({ x, y }: Point): Point => ({ x: x - width / 2, y });
  const drawn = graph.edges().map((edge) => ({
    edge,
    points: ((graph.edge(edge) as { points?: Point[] }).points ?? []).map(centred),
  }));
  return {
    width,
    height,
    centres: successors.map((_, unit) => centred(graph.node(String(unit)) as Point)),
    edges: drawn.flatMap(({ edge, points }) =>
      edge.v === ENTRY ? [] : [{ from: Number(edge.v), to: Number(edge.w), points }],
    ),
    entries: drawn.flatMap(({ edge, points }) =>
      edge.v === ENTRY ? [{ to: Number(edge.w), points }] : [],
    ),
  };
}
