/** Vertical lanes beside the stack of blocks, for edges that skip over some of them. */

export interface Crossing {
  /** The blocks where the edge begins and ends, and between which it must not be hidden. */
  first: number;
  last: number;
}

/**
 * An x for each crossing: outside of every block that it passes, and `gap` away from every other
 * crossing that runs beside it. The shortest lie innermost; the side with more room is taken,
 * the right one (x > 0) if both have the same.
 */
export function assignLanes(
  crossings: readonly Crossing[],
  halfWidths: readonly number[],
  margin: number,
  gap: number,
): number[] {
  const lanes = new Array<number>(crossings.length).fill(0);
  const taken: { crossing: Crossing; x: number }[] = [];
  const shortestFirst = crossings
    .map((crossing, index) => ({ crossing, index }))
    .sort((a, b) => length(a.crossing) - length(b.crossing) || a.index - b.index);
  for (const { crossing, index } of shortestFirst) {
    const widest = Math.max(...halfWidths.slice(crossing.first, crossing.last + 1));
    const beside = taken.filter((other) => overlap(other.crossing, crossing));
    const right = free(beside, widest + margin, gap, 1);
    const left = free(beside, widest + margin, gap, -1);
    const x = right <= left ? right : -left;
    lanes[index] = x;
    taken.push({ crossing, x });
  }
  return lanes;
}

const length = ({ first, last }: Crossing) => last - first;
const overlap = (a: Crossing, b: Crossing) => a.first <= b.last && b.first <= a.last;

/** The smallest distance from the middle, not below `least`, that is free on this side. */
function free(
  beside: readonly { x: number }[],
  least: number,
  gap: number,
  side: 1 | -1,
): number {
  const occupied = beside
    .filter(({ x }) => Math.sign(x) === side)
    .map(({ x }) => Math.abs(x))
    .sort((a, b) => a - b);
  let distance = least;
  for (const other of occupied) if (Math.abs(other - distance) < gap) distance = other + gap;
  return distance;
}
