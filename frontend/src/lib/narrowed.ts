/** Figures are made for a page's width; on a phone their words would take the room of the plot. */
import type { Figure } from "@/api/types";

import { isMapping } from "./facts";

type Layout = Figure["layout"];

export const NARROW_PX = 520;

const SMALL = { size: 10 };

/** The same layout with smaller words and thinner margins at its sides. */
export function narrowed(layout: Layout): Layout {
  const axes = Object.entries(layout).filter(([key]) => /^[xy]axis\d*$/.test(key));
  const legends = Object.entries({ legend: {}, ...layout }).filter(([key]) => /^legend\d*$/.test(key));
  return {
    ...layout,
    ...Object.fromEntries(axes.map(([key, axis]) => [key, smallAxis(part(axis))])),
    font: { ...part(layout["font"]), ...SMALL },
    ...Object.fromEntries(
      legends.map(([key, legend]) => [key, { ...part(legend), font: SMALL }]),
    ),
    margin: { ...part(layout["margin"]), l: 48, r: 8 },
    ...(Array.isArray(layout["annotations"])
      ? { annotations: layout["annotations"].map((each) => ({ ...part(each), font: SMALL })) }
      : {}),
  };
}

function smallAxis(axis: Layout): Layout {
  const title = axis["title"];
  return isMapping(title) ? { ...axis, title: { ...title, font: { size: 11 } } } : axis;
}

const part = (value: unknown): Layout => (isMapping(value) ? { ...value } : {});
