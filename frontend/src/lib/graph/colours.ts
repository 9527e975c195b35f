/** Colours of Units: by kind (Okabe and Ito's palette, safe for colour-blind readers) or by cost. */

export type ColourMode = "kind" | "cost";
export type Scheme = "light" | "dark";

export interface Family {
  name: string;
  kinds: readonly string[];
  colour: string;
}

const OTHER: Family = { name: "Other", kinds: [], colour: "#e69f00" };

/** Eight colours can be told apart, twenty cannot: kinds that behave alike share one. */
export const FAMILIES: readonly Family[] = [
  { name: "Convolution", kinds: ["conv"], colour: "#0072b2" },
  { name: "Matrix product", kinds: ["linear", "matmul", "attention"], colour: "#d55e00" },
  { name: "Pooling, reduction", kinds: ["pool", "reduction"], colour: "#009e73" },
  { name: "Element by element", kinds: ["elementwise", "activation"], colour: "#56b4e9" },
  { name: "Normalisation", kinds: ["normalization", "softmax"], colour: "#cc79a7" },
  {
    name: "Moving data",
    kinds: ["concat", "data", "view", "identity", "pad"],
    colour: "#8d959e",
  },
  { name: "Embedding", kinds: ["embedding"], colour: "#d6c21c" },
];

const BY_KIND = new Map(
  FAMILIES.flatMap((family) => family.kinds.map((kind) => [kind, family] as const)),
);

export const familyOf = (kind: string): Family => BY_KIND.get(kind) ?? OTHER;

/** The families of these kinds, in the palette's order. */
export function familiesIn(kinds: Iterable<string>): Family[] {
  const found = new Set([...kinds].map(familyOf));
  return [...FAMILIES, OTHER].filter((family) => found.has(family));
}

type Rgb = readonly [number, number, number];

/** From next to the page's own colour to far from it, in one hue range of even lightness steps. */
const SEQUENTIAL: Record<Scheme, readonly Rgb[]> = {
  light: [
    [238, 240, 226],
    [196, 222, 188],
    [110, 186, 182],
    [48, 130, 168],
    [31, 66, 128],
  ],
  dark: [
    [40, 48, 62],
    [38, 82, 118],
    [46, 138, 146],
    [126, 196, 142],
    [240, 232, 140],
  ],
};

/** The colour at `share` of the scale, from 0 to 1. */
export function sequential(share: number, scheme: Scheme): string {
  const stops = SEQUENTIAL[scheme];
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(at), stops.length - 2);
  const [low, high] = [stops[index] as Rgb, stops[index + 1] as Rgb];
  const mixed = low.map((part, i) => Math.round(part + ((high[i] ?? 0) - part) * (at - index)));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/** Where a Unit stands on the scale of cost: the root, because most cost far less than the most. */
export const costScale = (flops: number, most: number) =>
  most > 0 ? Math.sqrt(Math.max(flops, 0) / most) : 0;

/** Text that can be read on `background` (WCAG's relative luminance). */
export function inkOn(background: string): string {
  const linear = [1, 3, 5].map((start) => {
    const part = parseInt(background.slice(start, start + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const [red = 0, green = 0, blue = 0] = linear;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.3 ? "#14181d" : "#ffffff";
}

/** `share` of `colour` over `ground`, both `#rrggbb`. */
export function tint(colour: string, ground: string, share: number): string {
  const part = (text: string, start: number) => parseInt(text.slice(start, start + 2), 16);
  const mixed = [1, 3, 5].map((start) =>
    Math.round(part(colour, start) * share + part(ground, start) * (1 - share)),
  );
  return `#${mixed.map((each) => each.toString(16).padStart(2, "0")).join("")}`;
}
