/** What is drawn and where: blocks stacked from top to bottom, open or collapsed, and edges. */
import { connectBlocks, edge } from "./connections";
import { type Box, contains, type Point, union } from "./geometry";
import type { BlockLayout, GraphShape } from "./layout";
import { blockNode } from "./nodes";
import { BLOCK_GAP, CAPTION, COLLAPSED, FRAME_PADDING, UNIT } from "./sizes";

export interface UnitBox extends Box {
  unit: number;
}

/** The frame around an open block, or the box that stands for a collapsed one. */
export interface BlockBox extends Box {
  block: number;
  collapsed: boolean;
}

/** Ends are nodes: a Unit's position, or `blockNode` of a collapsed block. */
export interface SceneEdge {
  from: number;
  to: number;
  points: Point[];
  bounds: Box;
}

export interface Scene {
  units: UnitBox[];
  blocks: BlockBox[];
  edges: SceneEdge[];
  bounds: Box;
  /** The node that shows each Unit. */
  nodeOf: Int32Array;
  /** The box of each block, framed or not. */
  blockBounds: Box[];
}

/** A block of one Unit has nothing to collapse and no frame. */
export const isCollapsible = (block: { n: number }) => block.n > 1;

/** Places every block under the one before, and routes the edges between them. */
export function buildScene(
  graph: GraphShape,
  layouts: readonly BlockLayout[],
  collapsed: ReadonlySet<number>,
): Scene {
  const scene: Scene = {
    units: [],
    blocks: [],
    edges: [],
    bounds: { x: 0, y: 0, width: 0, height: 0 },
    nodeOf: new Int32Array(graph.units.length),
    blockBounds: [],
  };
  let y = 0;
  graph.blocks.forEach((block, index) => {
    const layout = layouts[index];
    if (!layout) return;
    if (isCollapsible(block) && collapsed.has(index)) placeCollapsed(scene, block, index, y);
    else placeOpen(scene, block, index, layout, y);
    y += (scene.blockBounds[index]?.height ?? 0) + BLOCK_GAP;
  });
  const entries = entriesFromAbove(scene, graph, layouts, collapsed);
  scene.edges.push(...connectBlocks(scene, graph, entries));
  scene.bounds = union([...scene.blockBounds, ...scene.edges.map(({ bounds }) => bounds)]);
  return scene;
}

function placeCollapsed(
  scene: Scene,
  block: { first: number; n: number },
  index: number,
  y: number,
): void {
  const box = { x: -COLLAPSED.width / 2, y, ...COLLAPSED };
  scene.blocks.push({ ...box, block: index, collapsed: true });
  scene.blockBounds.push(box);
  scene.nodeOf.fill(blockNode(index), block.first, block.first + block.n);
}

function placeOpen(
  scene: Scene,
  block: { first: number; n: number },
  index: number,
  layout: BlockLayout,
  y: number,
): void {
  const framed = isCollapsible(block);
  // Where edges enter from above, the room that they need holds the caption too.
  const caption = framed && layout.entries.length === 0 ? CAPTION : 0;
  const top = y + caption;
  const padding = framed ? FRAME_PADDING : 0;
  const box = {
    x: layout.left - padding,
    y,
    width: layout.width + 2 * padding,
    height: layout.height + caption + padding,
  };
  if (framed) scene.blocks.push({ ...box, block: index, collapsed: false });
  scene.blockBounds.push(box);
  layout.centres.forEach((centre, offset) => {
    const unit = block.first + offset;
    scene.nodeOf[unit] = unit;
    scene.units.push({
      unit,
      x: centre.x - UNIT.width / 2,
      y: centre.y - UNIT.height / 2 + top,
      ...UNIT,
    });
  });
  for (const inner of layout.edges) {
    const points = inner.points.map((point) => ({ x: point.x, y: point.y + top }));
    scene.edges.push(edge(block.first + inner.from, block.first + inner.to, points));
  }
}

/** For each Unit of an open block that reads what the block before ends with, its way in. */
function entriesFromAbove(
  scene: Scene,
  graph: GraphShape,
  layouts: readonly BlockLayout[],
  collapsed: ReadonlySet<number>,
): Map<number, Point[]> {
  const all = graph.blocks.flatMap(({ first }, index) => {
    const [layout, box] = [layouts[index], scene.blockBounds[index]];
    return layout && box && !collapsed.has(index) ? [...entriesOf(layout, first, box)] : [];
  });
  return new Map(all);
}

/** The edges from the Unit before the block, from where they enter its frame on, by their end. */
function entriesOf(layout: BlockLayout, first: number, box: Box): Map<number, Point[]> {
  return new Map(
    layout.entries.map(({ to, points }) => [
      first + to,
      points.map((point) => ({ x: point.x, y: point.y + box.y })),
    ]),
  );
}

/** The edges between consecutive Units of a path, as far as they are drawn. */
export function pathEdges(scene: Scene, units: readonly number[]): SceneEdge[] {
  const steps = new Set(
    units.slice(1).map((unit, index) => `${scene.nodeOf[units[index]!]} ${scene.nodeOf[unit]}`),
  );
  return scene.edges.filter(({ from, to }) => steps.has(`${from} ${to}`));
}

/** The left end of a caption holds the sign that opens and closes the block. */
const FOLD_WIDTH = 26;

export type Hit = { unit: number } | { block: number; fold: boolean } | null;

/** What is at a point: a Unit, a collapsed block, or the caption of an open one. */
export function hitAt(scene: Scene, point: Point): Hit {
  const unit = scene.units.find((box) => contains(box, point));
  if (unit) return { unit: unit.unit };
  const caption = ({ collapsed, ...box }: BlockBox) =>
    collapsed ? box : { ...box, height: CAPTION };
  const block = scene.blocks.find((box) => contains(caption(box), point));
  return block ? { block: block.block, fold: point.x <= block.x + FOLD_WIDTH } : null;
}
