/** Text on a canvas. */

/** One line of text from `x` on, cut off where `room` ends. */
export function drawText(
  context: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  room: number,
  font: string,
  colour: string,
): void {
  if (context.font !== font) context.font = font;
  context.fillStyle = colour;
  context.fillText(shortened(context, text, room, font), x, y);
}

const shortenings = new Map<string, string>();
/** Enough for every label of the largest graph, at both sizes. */
const SHORTENINGS = 10_000;

/** The text, with its end cut off where it does not fit. Measuring is slow, so it is kept. */
export function shortened(
  context: CanvasRenderingContext2D,
  text: string,
  room: number,
  font: string,
): string {
  const key = `${font}|${Math.round(room)}|${text}`;
  const known = shortenings.get(key);
  if (known !== undefined) return known;
  let short = text;
  while (short.length > 1 && context.measureText(short).width > room) {
    short = `${short.slice(0, -2).trimEnd()}…`;
  }
  if (shortenings.size >= SHORTENINGS) shortenings.clear();
  shortenings.set(key, short);
  return short;
}
