/** Points, boxes and the lines between them. */

export interface Point {
  x: number;
  y: number;
}

/** Its point is the upper left corner. */
export interface Box extends Point {
  width: number;
  height: number;
}

export const middle = (box: Box) => box.x + box.width / 2;
export const bottom = (box: Box) => box.y + box.height;

export const contains = (box: Box, { x, y }: Point) =>
  x >= box.x && x <= box.x + box.width && y >= box.y && y <= bottom(box);

export const overlaps = (a: Box, b: Box) =>
  a.x <= b.x + b.width && b.x <= a.x + a.width && a.y <= bottom(b) && b.y <= bottom(a);

/** The smallest box around points. */
export function boundsOf(points: readonly Point[]): Box {
  let [left, top, right, low] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    low = Math.max(low, y);
  }
  return { x: left, y: top, width: right - left, height: low - top };
}

/** The smallest box around boxes. */
export function union(boxes: readonly Box[]): Box {
  if (boxes.length === 0) return { x: 0, y: 0, width: 0, height: 0 };
  return boundsOf(
    boxes.flatMap((box) => [
      { x: box.x, y: box.y },
      { x: box.x + box.width, y: bottom(box) },
    ]),
  );
}

/** Down from one point to another, vertical at both ends; straight if one is above the other. */
export function swing(from: Point, to: Point): Point[] {
  if (Math.abs(from.x - to.x) < 1) return [from, to];
  const bend = (to.y - from.y) * 0.4;
  return [from, { x: from.x, y: from.y + bend }, { x: to.x, y: to.y - bend }, to];
}
