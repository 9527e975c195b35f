/** Numbers and dates as people read them. */

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

export function bytes(count: number): string {
  const power = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), BYTE_UNITS.length - 1);
  const value = count / 1024 ** power;
  const digits = power === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${BYTE_UNITS[power]}`;
}

/** Decimals that show four significant digits of `value`. */
function decimals(value: number): number {
  if (value === 0) return 0;
  return Math.min(Math.max(3 - Math.floor(Math.log10(Math.abs(value))), 0), 6);
}

/** A latency in milliseconds to four significant digits, without an exponent. */
export function milliseconds(value: number): string {
  return `${value.toFixed(decimals(value))} ms`;
}

/** `6.139 to 6.307 ms`: both ends with the decimals of the larger. */
export function interval(low: number, high: number): string {
  return `${low.toFixed(decimals(high))} to ${milliseconds(high)}`;
}

/** `1.08×`. Two decimals: a third would be within the noise of any measurement. */
export function times(ratio: number): string {
  return `${ratio.toFixed(2)}×`;
}

/** `42 s`, `3 min 05 s`, `2 h 07 min`. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  const pad = (value: number) => String(value).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  const minutes = Math.floor(whole / 60);
  return `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`;
}

/** How long ago, coarsely: `just now`, `5 min ago`, `3 h ago`, `12 d ago`. */
export function ago(from: Date, now: Date): string {
  const seconds = (now.getTime() - from.getTime()) / 1000;
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} d ago`;
}

/** A maximum absolute error: `0` when exact, else with one decimal and an exponent. */
export function absoluteError(value: number): string {
  return value === 0 ? "0" : value.toExponential(1);
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"] as const;

/** Three significant digits and an SI prefix, to put a unit behind: `1.23 G`, `512 `. */
export function quantity(value: number): string {
  const power = Math.floor(Math.log10(Math.max(Math.abs(value), 1)) / 3);
  let index = Math.min(power, PREFIXES.length - 1);
  // 999,900 is 1.00 M and not 1000 k.
  if (Number((value / 1000 ** index).toPrecision(3)) >= 1000 && index < PREFIXES.length - 1) index++;
  const scaled = value / 1000 ** index;
  const text = index === 0 && Number.isInteger(value) ? String(value) : scaled.toPrecision(3);
  return `${text} ${PREFIXES[index]}`;
}

/** `12.5 %`; what is there but rounds to nothing is `< 0.1 %`. */
export function percent(share: number): string {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(share * 100).toFixed(share >= 0.1 || share === 0 ? 0 : 1)} %`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function dateTime(iso: string): string {
  return new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function date(iso: string): string {
  return new Date(iso).toLocaleDateString(undefined, { dateStyle: "medium" });
}

export function clock(iso: string): string {
  return new Date(iso).toLocaleTimeString(undefined, { hour12: false });
}

const NAMES: Record<string, string> = {
  ios: "IOS",
  "opara-strict": "Opara, as published",
  whole: "Whole graph",
  eager: "Eager PyTorch",
  onnxruntime: "ONNX Runtime",
  "onnxruntime parallel": "ONNX Runtime, parallel",
};

/** The name of a scheduler, of several together (`ios+opara`), or of an alternative to them, in a
 * sentence or a heading. */
export function schedulerName(name: string): string {
  if (name.startsWith("torch.")) return name;
  const nameOf = (part: string) => NAMES[part] ?? part.charAt(0).toUpperCase() + part.slice(1);
  return name.split("+").map(nameOf).join(" + ");
}

/** Enough of an id or a hash to tell two apart. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}
