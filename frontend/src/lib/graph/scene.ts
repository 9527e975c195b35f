/** What is drawn and where: blocks stacked from top to bottom, open or collapsed, and edges. */
import { type BlockLayout, type GraphShape, type Point, swing, UNIT } from "./layout";
import { assignLanes, type Crossing } from "./lanes";

export interface Box {
  /** The upper left corner. */
  x: number;
  y: number;
  width: number;
  height: number;
}

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

const BLOCK_GAP = 32;
const FRAME_PADDING = 14;
/** Room for the frame's caption. */
export const CAPTION = 24;
const COLLAPSED = { width: 196, height: 46 } as const;
const LANE_GAP = 12;
const LANE_MARGIN = 22;
const TURN = 18;

export const blockNode = (block: number) => -1 - block;

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
  connectBlocks(scene, graph, entriesFromAbove(scene, graph, layouts, collapsed));
  scene.bounds = union([...scene.blockBounds, ...scene.edges.map((edge) => edge.bounds)]);
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
  for (const edge of layout.edges) {
    const points = edge.points.map((point) => ({ x: point.x, y: point.y + top }));
    addEdge(scene, block.first + edge.from, block.first + edge.to, points);
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

function addEdge(scene: Scene, from: number, to: number, points: Point[]): void {
  scene.edges.push({ from, to, points, bounds: boundsOf(points) });
}

interface Connection extends Crossing {
  from: number;
  to: number;
  start: Box;
  end: Box;
}

/**
 * Edges between neighbouring blocks run through the gap between them. The others skip something:
 * they run beside the stack, each in a lane of its own.
 */
function connectBlocks(scene: Scene, graph: GraphShape, entries: Map<number, Point[]>): void {
  const boxes = new Map<number, Box>();
  for (const box of scene.units) boxes.set(box.unit, box);
  for (const box of scene.blocks) if (box.collapsed) boxes.set(blockNode(box.block), box);
  const skipping: Connection[] = [];
  const seen = new Set<string>();
  graph.units.forEach((unit, position) => {
    for (const successor of unit.successors) {
      const other = graph.units[successor]?.block ?? unit.block;
      if (other === unit.block) continue;
      const [from, to] = [scene.nodeOf[position] ?? 0, scene.nodeOf[successor] ?? 0];
      const key = `${from} ${to}`;
      const [start, end] = [boxes.get(from), boxes.get(to)];
      if (seen.has(key) || !start || !end) continue;
      seen.add(key);
      const link = { from, to, start, end, first: unit.block, last: other };
      const entry = position === (graph.blocks[other]?.first ?? 0) - 1 && entries.get(successor);
      if (entry) addEdge(scene, from, to, intoBlock(start, entry));
      else if (other === unit.block + 1 && leavesBelow(scene, link) && entersAbove(scene, link)) {
        addEdge(scene, from, to, straightDown(start, end));
      } else {
        skipping.push(link);
      }
    }
  });
  const halfWidths = scene.blockBounds.map((box) => Math.max(-box.x, box.x + box.width));
  const buses = busesOf(skipping);
  const lanes = assignLanes(buses, halfWidths, LANE_MARGIN, LANE_GAP);
  buses.forEach((bus, index) => {
    for (const link of bus.links) {
      addEdge(scene, link.from, link.to, besideTheStack(scene, link, lanes[index] ?? 0));
    }
  });
}

/** Edges that begin at the same node share a lane, as far as the longest of them goes. */
function busesOf(links: readonly Connection[]): (Crossing & { links: Connection[] })[] {
  const buses = new Map<number, Crossing & { links: Connection[] }>();
  for (const link of links) {
    const bus = buses.get(link.from) ?? { first: link.first, last: link.last, links: [] };
    bus.first = Math.min(bus.first, link.first);
    bus.last = Math.max(bus.last, link.last);
    bus.links.push(link);
    buses.set(link.from, bus);
  }
  return [...buses.values()];
}

/** Whether nothing of its block stands below the node where the edge begins. */
function leavesBelow(scene: Scene, link: Connection): boolean {
  const block = scene.blockBounds[link.first];
  return !block || bottom(link.start) >= bottom(block) - FRAME_PADDING - 1;
}

/** Whether nothing of its block stands above the node where the edge ends. */
function entersAbove(scene: Scene, link: Connection): boolean {
  const block = scene.blockBounds[link.last];
  return !block || link.end.y <= block.y + CAPTION + 1;
}

function intoBlock(start: Box, entry: readonly Point[]): Point[] {
  const first = entry[0] ?? { x: 0, y: 0 };
  return [...swing({ x: middle(start), y: bottom(start) }, first), ...entry.slice(1)];
}

const straightDown = (start: Box, end: Box) =>
  swing({ x: middle(start), y: bottom(start) }, { x: middle(end), y: end.y });

/**
 * Out of the box's side, along the lane, and into the side; through the gap under or over its
 * block where the block is wider than the box, because neighbours may stand beside it.
 */
function besideTheStack(scene: Scene, link: Connection, lane: number): Point[] {
  const { start, end } = link;
  const below = isWider(scene.blockBounds[link.first], start) && leavesBelow(scene, link);
  const up = isWider(scene.blockBounds[link.last], end) && entersAbove(scene, link);
  const y0 = below ? bottom(scene.blockBounds[link.first] ?? start) : start.y + start.height / 2;
  const y1 = up ? (scene.blockBounds[link.last] ?? end).y : end.y + end.height / 2;
  const [begin, finish] = [y0 + (below ? TURN / 2 : 0), y1 - (up ? TURN / 2 : 0)];
  const points = below
    ? [{ x: middle(start), y: bottom(start) }, { x: middle(start), y: begin }]
    : [{ x: lane > 0 ? start.x + start.width : start.x, y: begin }];
  const turn = Math.min(TURN, Math.max(finish - begin, 0) / 3);
  points.push(
    { x: lane, y: begin },
    { x: lane, y: begin + 2 * turn },
    { x: lane, y: finish - 2 * turn },
    { x: lane, y: finish },
  );
  if (up) points.push({ x: middle(end), y: finish }, { x: middle(end), y: end.y });
  else points.push({ x: lane > 0 ? end.x + end.width : end.x, y: finish });
  return points;
}

const isWider = (block: Box | undefined, box: Box) => !!block && block.width > box.width + 1;
const middle = (box: Box) => box.x + box.width / 2;
const bottom = (box: Box) => box.y + box.height;

function boundsOf(points: readonly Point[]): Box {
  let [left, top, right, low] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    low = Math.max(low, y);
  }
  return { x: left, y: top, width: right - left, height: low - top };
}

function union(boxes: readonly Box[]): Box {
  if (boxes.length === 0) return { x: 0, y: 0, width: 0, height: 0 };
  return boundsOf(
    boxes.flatMap((box) => [
      { x: box.x, y: box.y },
      { x: box.x + box.width, y: bottom(box) },
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
export function hitAt(scene: Scene, { x, y }: Point): Hit {
  const within = (box: Box) =>
    x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
  const unit = scene.units.find(within);
  if (unit) return { unit: unit.unit };
  const caption = ({ collapsed, ...box }: BlockBox) =>
    collapsed ? box : { ...box, height: CAPTION };
  const block = scene.blocks.find((box) => within(caption(box)));
  return block ? { block: block.block, fold: x <= block.x + FOLD_WIDTH } : null;
}
