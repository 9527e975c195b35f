/** The drawing on its canvas: pointer, wheel and keys move it, and it paints once per frame. */
import type { Box, Point } from "./geometry";
import { blockNode } from "./nodes";
import { type Ink, type Marks, paint, type Picture } from "./paint";
import { type Hit, hitAt } from "./scene";
import {
  between,
  centred,
  fit,
  held,
  opening,
  panned,
  type Size,
  toDrawing,
  type View,
  zoomed,
} from "./viewport";

export interface GraphView {
  /** Draws another picture; the reader's view stays unless there was nothing before. */
  show: (picture: Picture, ink: Ink) => void;
  /** Marks a node: a Unit's position or a block's node. */
  mark: (node: number | null) => void;
  /** Shows everything. */
  fitAll: () => void;
  zoomBy: (factor: number) => void;
  /** Brings a Unit to the middle, large enough to be read. */
  goToUnit: (unit: number) => void;
  /** Fills the screen with a block. */
  goToBlock: (block: number) => void;
  close: () => void;
}

interface Handlers {
  onPick: (picked: { unit: number } | { block: number } | null) => void;
  /** A double click on a block, or one click on the sign in its caption. */
  onToggle: (block: number) => void;
}

const READABLE_SCALE = 0.9;
const GLIDE_MS = 220;
const KEY_STEP = 60;
const ZOOM_STEP = 1.3;
/** Less than this between press and release is a click. */
const CLICK_PIXELS = 4;

export function createGraphView(canvas: HTMLCanvasElement, handlers: Handlers): GraphView {
  const context = canvas.getContext("2d", { alpha: false });
  let picture: Picture | null = null;
  let ink: Ink | null = null;
  let view: View | null = null;
  let screen: Size = { width: canvas.clientWidth, height: canvas.clientHeight };
  let glide: { from: View; to: View; start: number } | null = null;
  let frame = 0;
  const marks: Marks = { selected: null, hovered: null };
  const pointers = new Map<number, Point>();
  let pressed: Point | null = null;
  let moved = false;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

  function draw(now: number): void {
    frame = 0;
    if (!context || !picture || !ink || !view) return;
    if (glide) {
      const progress = Math.min((now - glide.start) / GLIDE_MS, 1);
      view = between(glide.from, glide.to, 1 - (1 - progress) ** 3);
      if (progress < 1) schedule();
      else glide = null;
    }
    paint(context, picture, view, screen, ink, marks);
  }

  function schedule(): void {
    frame ||= requestAnimationFrame(draw);
  }

  function look(next: View): void {
    glide = null;
    view = picture ? held(next, picture.scene.bounds, screen) : next;
    schedule();
  }

  function glideTo(next: View): void {
    if (!view || !picture) return;
    const to = held(next, picture.scene.bounds, screen);
    if (calm) return look(to);
    glide = { from: view, to, start: performance.now() };
    schedule();
  }

  function resize(): void {
    screen = { width: canvas.clientWidth, height: canvas.clientHeight };
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.round(screen.width * ratio);
    canvas.height = Math.round(screen.height * ratio);
    if (!view && picture && screen.width > 0) view = opening(picture.scene.bounds, screen);
    // At once: a canvas that was resized is blank until it is painted.
    draw(performance.now());
  }

  const at = (event: MouseEvent): Point => ({ x: event.offsetX, y: event.offsetY });

  function under(event: MouseEvent): Hit {
    return picture && view ? hitAt(picture.scene, toDrawing(view, at(event))) : null;
  }

  function press(event: PointerEvent): void {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    pressed = at(event);
    moved = pointers.size > 1;
  }

  function move(event: PointerEvent): void {
    const before = pointers.get(event.pointerId);
    if (!before) return hover(event);
    const now = at(event);
    if (pressed && Math.hypot(now.x - pressed.x, now.y - pressed.y) > CLICK_PIXELS) moved = true;
    pointers.set(event.pointerId, now);
    if (!view || !moved) return;
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const spread = Math.hypot(now.x - other.x, now.y - other.y);
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      look(zoomed(view, other, spread / Math.max(was, 1)));
    } else {
      look(panned(view, { x: now.x - before.x, y: now.y - before.y }));
    }
    canvas.style.cursor = "grabbing";
  }

  function release(event: PointerEvent): void {
    const known = pointers.delete(event.pointerId);
    if (known && !moved && event.type === "pointerup") click(under(event));
    if (pointers.size === 0) pressed = null;
    canvas.style.cursor = "";
  }

  function click(hit: Hit): void {
    if (hit === null || "unit" in hit) handlers.onPick(hit);
    else if (hit.fold) handlers.onToggle(hit.block);
    else handlers.onPick({ block: hit.block });
  }

  function hover(event: PointerEvent): void {
    const found = under(event);
    const node = found === null ? null : "unit" in found ? found.unit : blockNode(found.block);
    canvas.style.cursor = node === null ? "" : "pointer";
    if (node === marks.hovered) return;
    marks.hovered = node;
    schedule();
  }

  function leave(): void {
    if (marks.hovered === null) return;
    marks.hovered = null;
    schedule();
  }

  /** A plain wheel scrolls the page, until the reader has turned to the drawing by a click. */
  function wheel(event: WheelEvent): void {
    const meant = event.ctrlKey || event.metaKey || document.activeElement === canvas;
    if (!view || !meant) return;
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const strength = event.ctrlKey && Math.abs(event.deltaY) < 40 ? 0.01 : 0.0016;
    look(zoomed(view, at(event), Math.exp(-event.deltaY * lines * strength)));
  }

  function key(event: KeyboardEvent): void {
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps: Record<string, Point> = {
      ArrowLeft: { x: KEY_STEP, y: 0 },
      ArrowRight: { x: -KEY_STEP, y: 0 },
      ArrowUp: { x: 0, y: KEY_STEP },
      ArrowDown: { x: 0, y: -KEY_STEP },
    };
    const step = steps[event.key];
    if (step) look(panned(view, step));
    else if (event.key === "+" || event.key === "=") api.zoomBy(ZOOM_STEP);
    else if (event.key === "-") api.zoomBy(1 / ZOOM_STEP);
    else if (event.key === "0") api.fitAll();
    else return;
    event.preventDefault();
  }

  function open(event: MouseEvent): void {
    const hit = under(event);
    if (hit && "block" in hit && !hit.fold) handlers.onToggle(hit.block);
  }

  canvas.addEventListener("pointerdown", press);
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("wheel", wheel, { passive: false });
  canvas.addEventListener("keydown", key);
  canvas.addEventListener("dblclick", open);
  const observer = new ResizeObserver(resize);
  observer.observe(canvas);

  function goToBox(box: Box | undefined, scaleFor: (box: Box) => View): void {
    if (box) glideTo(scaleFor(box));
  }

  const api: GraphView = {
    show: (next, nextInk) => {
      picture = next;
      ink = nextInk;
      if (!view && screen.width > 0) view = opening(next.scene.bounds, screen);
      schedule();
    },
    mark: (node) => {
      marks.selected = node;
      schedule();
    },
    fitAll: () => picture && glideTo(fit(picture.scene.bounds, screen)),
    zoomBy: (factor) => {
      const middle = { x: screen.width / 2, y: screen.height / 2 };
      if (view) glideTo(zoomed(glide?.to ?? view, middle, factor));
    },
    goToUnit: (unit) => {
      const scale = Math.max(view?.scale ?? 0, READABLE_SCALE);
      goToBox(
        picture?.scene.units.find((box) => box.unit === unit),
        (box) =>
          centred({ x: box.x + box.width / 2, y: box.y + box.height / 2 }, screen, scale),
      );
    },
    goToBlock: (block) =>
      goToBox(picture?.scene.blockBounds[block], (box) => fit(box, screen, 1.1)),
    close: () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
      canvas.removeEventListener("pointerdown", press);
      canvas.removeEventListener("pointermove", move);
      canvas.removeEventListener("pointerup", release);
      canvas.removeEventListener("pointercancel", release);
      canvas.removeEventListener("pointerleave", leave);
      canvas.removeEventListener("wheel", wheel);
      canvas.removeEventListener("keydown", key);
      canvas.removeEventListener("dblclick", open);
    },
  };
  return api;
}
