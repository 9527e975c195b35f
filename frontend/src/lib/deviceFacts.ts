import type { Device } from "@/api/types";

import { bytes } from "./format";

/** Shown elsewhere: the name, kind, description and fingerprint have columns of their own. */
const ELSEWHERE = new Set(["name", "kind", "description", "fingerprint", "simulated"]);

/** A device's facts as names and texts; a fact that this page has never heard of is shown too. */
export function factLines(facts: Device["facts"]): [string, string][] {
  return Object.entries(facts)
    .filter(([key]) => !ELSEWHERE.has(key))
    .map(([key, value]) => [label(key), text(key, value)]);
}

function label(key: string): string {
  const words = key.replace(/_bytes$/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function text(key: string, value: unknown): string {
  if (key.endsWith("_bytes") && typeof value === "number") return bytes(value);
  if (Array.isArray(value)) return value.map(String).join(", ");
  if (typeof value === "object" && value !== null) {
    return Object.entries(value)
      .map(([name, entry]) => `${name} ${String(entry)}`)
      .join(", ");
  }
  return String(value);
}
