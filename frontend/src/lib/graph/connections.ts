/** Edges from one block to another: through the gap between two, or beside the whole stack. */
import { bottom, type Box, boundsOf, middle, type Point, swing } from "./geometry";
import { assignLanes, type Crossing } from "./lanes";
import type { GraphShape } from "./layout";
import { blockNode } from "./nodes";
import type { Scene, SceneEdge } from "./scene";
import { CAPTION, FRAME_PADDING, LANE_GAP, LANE_MARGIN } from "./sizes";

/** How soon a line that leaves its box is in its lane. */
const TURN = 18;

export const edge = (from: number, to: number, points: Point[]): SceneEdge => ({
  from,
  to,
  points,
  bounds: boundsOf(points),
});

interface Connection extends Crossing {
  from: number;
  to: number;
  start: Box;
  end: Box;
}

/**
 * The edges between blocks. Those to the next block run through the gap between the two, and on
 * along `entries` to the Units that have one. The others skip something: they run beside the stack,
 * in lanes.
 */
export function connectBlocks(
  scene: Scene,
  graph: GraphShape,
  entries: ReadonlyMap<number, Point[]>,
): SceneEdge[] {
  const edges: SceneEdge[] = [];
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
      if (entry) edges.push(edge(from, to, intoBlock(start, entry)));
      else if (other === unit.block + 1 && leavesBelow(scene, link) && entersAbove(scene, link)) {
        edges.push(edge(from, to, straightDown(start, end)));
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
      edges.push(edge(link.from, link.to, besideTheStack(scene, link, lanes[index] ?? 0)));
    }
  });
  return edges;
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
