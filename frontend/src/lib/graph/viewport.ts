/** Where the reader looks: pure arithmetic of pan and zoom. */
import type { Box, Point } from "./geometry";

/** A point of the drawing appears on the screen at `point * scale + (x, y)`. */
export interface View extends Point {
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

export const MAX_SCALE = 2;
const MIN_SCALE = 0.01;
const MARGIN = 24;
/** A drawing that would be smaller than this to fit is shown from its top instead. */
const READABLE = 0.4;

/** The largest view, of natural size at most, that shows all of `box`. */
export function fit(box: Box, screen: Size, most = 1): View {
  const scale = clampScale(
    Math.min(
      most,
      (screen.width - 2 * MARGIN) / Math.max(box.width, 1),
      (screen.height - 2 * MARGIN) / Math.max(box.height, 1),
    ),
  );
  return centred({ x: box.x + box.width / 2, y: box.y + box.height / 2 }, screen, scale);
}

/** Everything, if it is large enough to be read so; else as wide as fits, from the top. */
export function opening(box: Box, screen: Size): View {
  const whole = fit(box, screen);
  if (whole.scale >= READABLE) return whole;
  const wide = fit({ ...box, height: 1 }, screen);
  const scale = Math.max(wide.scale, Math.min(READABLE, 1));
  const view = centred({ x: box.x + box.width / 2, y: 0 }, screen, scale);
  return { ...view, y: MARGIN - box.y * scale };
}

/** `point` in the middle of the screen. */
export function centred(point: Point, screen: Size, scale: number): View {
  return {
    scale,
    x: screen.width / 2 - point.x * scale,
    y: screen.height / 2 - point.y * scale,
  };
}

/** Zooms by `factor` and keeps what is under `at` (a point of the screen) where it is. */
export function zoomed(view: View, at: Point, factor: number): View {
  const scale = clampScale(view.scale * factor);
  const ratio = scale / view.scale;
  return { scale, x: at.x - (at.x - view.x) * ratio, y: at.y - (at.y - view.y) * ratio };
}

export function panned(view: View, by: Point): View {
  return { ...view, x: view.x + by.x, y: view.y + by.y };
}

/** Keeps at least a corner of the drawing on the screen, so that nobody gets lost. */
export function held(view: View, box: Box, screen: Size): View {
  const within = (value: number, start: number, length: number, room: number) => {
    const keep = Math.min(80, length * view.scale, room);
    const lowest = keep - (start + length) * view.scale;
    const highest = room - keep - start * view.scale;
    return Math.min(Math.max(value, lowest), highest);
  };
  return {
    ...view,
    x: within(view.x, box.x, box.width, screen.width),
    y: within(view.y, box.y, box.height, screen.height),
  };
}

export function toDrawing(view: View, at: Point): Point {
  return { x: (at.x - view.x) / view.scale, y: (at.y - view.y) / view.scale };
}

/** The part of the drawing that the screen shows. */
export function visible(view: View, screen: Size): Box {
  const corner = toDrawing(view, { x: 0, y: 0 });
  return { ...corner, width: screen.width / view.scale, height: screen.height / view.scale };
}

/** Between two views, `progress` from 0 to 1; even steps of zoom look even. */
export function between(from: View, to: View, progress: number): View {
  const scale = from.scale * (to.scale / from.scale) ** progress;
  const mix = (a: number, b: number) => a + (b - a) * progress;
  return { scale, x: mix(from.x, to.x), y: mix(from.y, to.y) };
}

const clampScale = (scale: number) => Math.min(Math.max(scale, MIN_SCALE), MAX_SCALE);
