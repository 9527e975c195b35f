/**
 * Draws a scene on a canvas, with as much detail as its scale can show: text only where it can be
 * read, plain rectangles from far away, nothing that is outside of the screen.
 */
import { inkOn, tint } from "./colours";
import { type Box, overlaps, type Point } from "./geometry";
import { blockNode } from "./nodes";
import type { BlockBox, Scene, SceneEdge, UnitBox } from "./scene";
import { CAPTION } from "./sizes";
import { drawText, shortened } from "./text";
import { type Size, type View, visible } from "./viewport";

/** What a node says and shows. */
export interface Label {
  title: string;
  note: string;
  colour: string;
}

export interface Picture {
  scene: Scene;
  /** By position of the Unit. */
  units: readonly Label[];
  /** By position of the block; their colour is the fill of a collapsed one. */
  blocks: readonly Label[];
  /** Edges to emphasise: the critical path's, if it is to be seen. */
  path: readonly SceneEdge[];
  /** Whether a Unit's colour fills its box (cost) or only tints it (kind). */
  filled: boolean;
}

export interface Ink {
  page: string;
  panel: string;
  text: string;
  dimmed: string;
  line: string;
  edge: string;
  accent: string;
  font: string;
}

/** The node that is selected and the one under the pointer. */
export interface Marks {
  selected: number | null;
  hovered: number | null;
}

const TEXT_SCALE = 0.5;
const ROUND_SCALE = 0.28;
const CURVE_SCALE = 0.16;
const FONT_SIZE = 11.5;
const NOTE_SIZE = 9.5;
const BAR = 5;
const TINT = 0.16;

export function paint(
  context: CanvasRenderingContext2D,
  picture: Picture,
  view: View,
  screen: Size,
  ink: Ink,
  marks: Marks,
): void {
  const ratio = context.canvas.width / Math.max(screen.width, 1);
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = ink.panel;
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  const { scale, x, y } = view;
  context.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * x, ratio * y);
  const seen = visible(view, screen);
  const { scene } = picture;
  for (const block of scene.blocks) {
    if (!overlaps(block, seen)) continue;
    if (block.collapsed) drawCollapsed(context, block, picture, view, ink, marks);
    else drawFrame(context, block, view, ink, marks);
  }
  drawEdges(context, scene.edges, seen, scale, ink.edge, Math.max(1.2, 0.7 / scale));
  drawEdges(context, picture.path, seen, scale, ink.text, Math.max(3, 2 / scale));
  drawMarkedEdges(context, scene, seen, scale, ink, marks.selected);
  for (const block of scene.blocks) {
    if (scale < TEXT_SCALE) break;
    if (!block.collapsed && overlaps(block, seen)) drawCaption(context, block, picture, ink);
  }
  const shown = scene.units.filter((unit) => overlaps(unit, seen));
  if (scale < ROUND_SCALE) drawDots(context, shown, picture);
  else for (const unit of shown) drawUnit(context, unit, picture, scale, ink);
  for (const unit of shown) {
    if (unit.unit === marks.selected) outline(context, unit, 3 / Math.max(scale, 0.35), ink.accent);
    else if (unit.unit === marks.hovered) outline(context, unit, 1.5 / scale, ink.text);
  }
}

function drawEdges(
  context: CanvasRenderingContext2D,
  edges: readonly SceneEdge[],
  seen: Box,
  scale: number,
  colour: string,
  width: number,
): void {
  if (edges.length === 0) return;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  for (const edge of edges) {
    if (overlaps(edge.bounds, seen)) trace(context, edge.points, scale);
  }
  context.stroke();
}

/** Those of the selected node, over all others and with arrow heads. */
function drawMarkedEdges(
  context: CanvasRenderingContext2D,
  scene: Scene,
  seen: Box,
  scale: number,
  ink: Ink,
  selected: number | null,
): void {
  if (selected === null) return;
  context.strokeStyle = context.fillStyle = ink.accent;
  context.lineWidth = Math.max(2, 1.5 / scale);
  context.beginPath();
  const marked = scene.edges.filter(
    (edge) => (edge.from === selected || edge.to === selected) && overlaps(edge.bounds, seen),
  );
  for (const edge of marked) trace(context, edge.points, scale);
  context.stroke();
  if (scale < CURVE_SCALE) return;
  for (const edge of marked) drawHead(context, edge.points);
}

/** A smooth line: the points between the first and the last pull it, and it passes between them. */
function trace(context: CanvasRenderingContext2D, points: readonly Point[], scale: number): void {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last) return;
  context.moveTo(first.x, first.y);
  if (scale < CURVE_SCALE) {
    for (const point of points) context.lineTo(point.x, point.y);
    return;
  }
  for (let i = 1; i < points.length - 1; i++) {
    const [here, next] = [points[i] as Point, points[i + 1] as Point];
    const end = i === points.length - 2 ? next : midpoint(here, next);
    context.quadraticCurveTo(here.x, here.y, end.x, end.y);
  }
  context.lineTo(last.x, last.y);
}

const midpoint = (a: Point, b: Point): Point => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });

function drawHead(context: CanvasRenderingContext2D, points: readonly Point[]): void {
  const [before, tip] = [points.at(-2), points.at(-1)];
  if (!before || !tip) return;
  const angle = Math.atan2(tip.y - before.y, tip.x - before.x);
  context.beginPath();
  context.moveTo(tip.x, tip.y);
  for (const side of [-0.45, 0.45]) {
    context.lineTo(tip.x - 9 * Math.cos(angle + side), tip.y - 9 * Math.sin(angle + side));
  }
  context.fill();
}

/** From far away: one fill for all Units of a colour. */
function drawDots(
  context: CanvasRenderingContext2D,
  shown: readonly UnitBox[],
  picture: Picture,
): void {
  const byColour = new Map<string, UnitBox[]>();
  for (const unit of shown) {
    const colour = picture.units[unit.unit]?.colour ?? "";
    const same = byColour.get(colour);
    if (same) same.push(unit);
    else byColour.set(colour, [unit]);
  }
  for (const [colour, units] of byColour) {
    context.fillStyle = colour;
    context.beginPath();
    for (const { x, y, width, height } of units) context.rect(x, y, width, height);
    context.fill();
  }
}

function drawUnit(
  context: CanvasRenderingContext2D,
  box: UnitBox,
  picture: Picture,
  scale: number,
  ink: Ink,
): void {
  const label = picture.units[box.unit];
  if (!label) return;
  const fill = picture.filled ? label.colour : tint(label.colour, ink.panel, TINT);
  context.beginPath();
  context.roundRect(box.x, box.y, box.width, box.height, 5);
  context.fillStyle = fill;
  context.fill();
  context.strokeStyle = picture.filled ? ink.edge : label.colour;
  context.lineWidth = 1;
  context.stroke();
  if (!picture.filled) {
    context.beginPath();
    context.roundRect(box.x, box.y, BAR, box.height, [5, 0, 0, 5]);
    context.fillStyle = label.colour;
    context.fill();
  }
  if (scale < TEXT_SCALE) return;
  const left = box.x + BAR + 7;
  const room = box.width - BAR - 13;
  const text = picture.filled ? inkOn(fill) : ink.text;
  drawText(context, label.title, left, box.y + 15, room, `550 ${FONT_SIZE}px ${ink.font}`, text);
  const quiet = picture.filled ? text : ink.dimmed;
  drawText(context, label.note, left, box.y + 28.5, room, `${NOTE_SIZE}px ${ink.font}`, quiet);
}

function drawFrame(
  context: CanvasRenderingContext2D,
  box: BlockBox,
  view: View,
  ink: Ink,
  marks: Marks,
): void {
  const node = blockNode(box.block);
  const strong = marks.selected === node;
  context.beginPath();
  context.roundRect(box.x, box.y, box.width, box.height, 8);
  context.fillStyle = ink.page;
  context.fill();
  context.strokeStyle = strong ? ink.accent : marks.hovered === node ? ink.dimmed : ink.line;
  context.lineWidth = (strong ? 2.5 : 1) / Math.min(Math.max(view.scale, 0.3), 1);
  context.stroke();
}

/** Over the edges, on a ground of its own: edges that enter the block cross its caption. */
function drawCaption(
  context: CanvasRenderingContext2D,
  box: BlockBox,
  picture: Picture,
  ink: Ink,
): void {
  const label = picture.blocks[box.block];
  if (!label) return;
  const font = `600 ${FONT_SIZE}px ${ink.font}`;
  context.font = font;
  const text = shortened(context, `−  ${label.title}   ${label.note}`, box.width - 20, font);
  context.fillStyle = ink.page;
  context.fillRect(box.x + 8, box.y + 4, context.measureText(text).width + 10, CAPTION - 6);
  drawText(context, text, box.x + 12, box.y + CAPTION - 8, box.width - 20, font, ink.dimmed);
}

function drawCollapsed(
  context: CanvasRenderingContext2D,
  box: BlockBox,
  picture: Picture,
  view: View,
  ink: Ink,
  marks: Marks,
): void {
  const node = blockNode(box.block);
  const label = picture.blocks[box.block];
  context.beginPath();
  context.roundRect(box.x, box.y, box.width, box.height, 8);
  context.fillStyle = tint(ink.edge, ink.panel, 0.28);
  context.fill();
  const marked = marks.selected === node;
  context.strokeStyle = marked ? ink.accent : marks.hovered === node ? ink.text : ink.edge;
  context.lineWidth = (marked ? 3 : 1.2) / Math.min(Math.max(view.scale, 0.35), 1);
  context.stroke();
  if (!label || view.scale < TEXT_SCALE * 0.8) return;
  const [left, room] = [box.x + 14, box.width - 28];
  const font = `600 12.5px ${ink.font}`;
  drawText(context, `+  ${label.title}`, left, box.y + 20, room, font, ink.text);
  drawText(context, label.note, left, box.y + 35, room, `10.5px ${ink.font}`, ink.dimmed);
}

function outline(
  context: CanvasRenderingContext2D,
  box: Box,
  width: number,
  colour: string,
): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.roundRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2, 6);
  context.stroke();
}
