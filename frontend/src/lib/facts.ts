/** Free JSON of facts as names and texts: what this page has never heard of is shown too. */
import { bytes, count, dateTime, percent } from "./format";

export type Lines = readonly (readonly [string, string])[];
export type FreeJson = Readonly<Record<string, unknown>>;

/** Endings of a key that say its unit. */
const UNITS: Record<string, (value: number) => string> = {
  bytes: bytes,
  share: percent,
  ms: (value) => `${plain(value)} ms`,
  s: (value) => `${plain(value)} s`,
  seconds: (value) => `${plain(value)} s`,
  mhz: (value) => `${plain(value)} MHz`,
  gib: (value) => `${plain(value)} GiB`,
  c: (value) => `${plain(value)} °C`,
  w: (value) => `${plain(value)} W`,
};

/** Numbers that name something: nobody counts with them. */
const NAMES = new Set(["id", "pid", "uuid"]);

/** Endings that the value shows by itself; a share needs its name. */
const SILENT = new Set([...Object.keys(UNITS), "at"].filter((unit) => unit !== "share"));

/** Words that are not written as `words` are. */
const SPELLED: Record<string, string> = {
  cpu: "CPU",
  cuda: "CUDA",
  cudnn: "cuDNN",
  gpu: "GPU",
  id: "ID",
  l2: "L2",
  mhz: "MHz",
  mkl: "MKL",
  onednn: "oneDNN",
  os: "OS",
  pid: "PID",
  pytorch: "PyTorch",
  openmp: "OpenMP",
  sm: "SM",
  smt: "SMT",
};

/** `load_per_core` is "Load per core"; the unit of `memory_bytes` goes to its value. The name of an
 * environment variable is left as it is. */
export function factLabel(key: string): string {
  if (key === key.toUpperCase()) return key;
  const words = key.split("_");
  if (words.length > 1 && SILENT.has(words.at(-1) ?? "")) words.pop();
  const [first = "", ...rest] = words;
  const start = SPELLED[first] ?? first.charAt(0).toUpperCase() + first.slice(1);
  return [start, ...rest.map((word) => SPELLED[word] ?? word)].join(" ");
}

/** One fact as text; a list or a mapping in one line. Nothing for what is not known. */
export function factText(key: string, value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (NAMES.has(unitOf(key) || key)) return String(value);
  if (typeof value === "number") return (UNITS[unitOf(key)] ?? plain)(value);
  if (Array.isArray(value)) return value.map((entry) => factText("", entry)).join(", ");
  if (typeof value === "object") {
    return Object.entries(value)
      .map(([name, entry]) => `${name} ${factText(name, entry)}`)
      .join(", ");
  }
  if (typeof value === "string") {
    return unitOf(key) === "at" && !Number.isNaN(Date.parse(value)) ? dateTime(value) : value;
  }
  return JSON.stringify(value);
}

/** The facts that have a value, without those that are shown elsewhere. */
export function linesOf(facts: FreeJson, elsewhere: ReadonlySet<string> = new Set()): Lines {
  return Object.entries(facts)
    .filter(([key]) => !elsewhere.has(key))
    .map(([key, value]) => [factLabel(key), factText(key, value)] as const)
    .filter(([, text]) => text !== "");
}

export function isMapping(value: unknown): value is FreeJson {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function unitOf(key: string): string {
  return key.includes("_") ? (key.split("_").at(-1) ?? "") : "";
}

/** Four significant digits, and no more of them than the number has. */
function plain(value: number): string {
  return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
}
