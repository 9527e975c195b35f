/** What finding a schedule took. The worker writes it as free JSON, so nothing is taken on trust. */
import type { Result } from "@/api/types";

import { count, duration } from "./format";
import { endingWords, isEnding, latencyFacts, type Standing } from "./searching";

type Search = Result["search"];

const PARTS = [
  ["states", "states"],
  ["transitions", "transitions"],
  ["stages_measured", "stages measured"],
] as const;

function numberOf(search: Search, key: string): number {
  const value = search[key];
  return typeof value === "number" ? value : 0;
}

/** `61 s`, with a tenth where it matters; nothing for a scheduler that does not search. */
export function searchSeconds(search: Search): string {
  const seconds = numberOf(search, "seconds");
  if (seconds <= 0) return "";
  if (seconds < 0.05) return "< 0.1 s";
  return seconds < 10 ? `${seconds.toFixed(1)} s` : duration(seconds);
}

/** `412 states, 3,980 transitions, 1,402 stages measured`, without what is zero. */
export function searchWords(search: Search): string {
  return PARTS.filter(([key]) => numberOf(search, key) > 0)
    .map(([key, words]) => `${count(numberOf(search, key))} ${words}`)
    .join(", ");
}

/** How good the schedule was found to be and why the search ended; nothing without a search. */
export function searchOutcome(search: Search, simulated: boolean): [string, string | null][] {
  const ended = search["ended"];
  if (!isEnding(ended)) return [];
  const standing: Standing = {
    best_ms: latencyOf(search, "predicted_ms"),
    bound_ms: latencyOf(search, "bound_ms"),
    expected_ms: latencyOf(search, "expected_ms"),
    bound_holds: search["bound_holds"] === true,
    ended,
  };
  return [...latencyFacts(standing, simulated), ["Ended", endingWords(standing)]];
}

function latencyOf(search: Search, key: string): number | null {
  const value = search[key];
  return typeof value === "number" ? value : null;
}

/** Whether the stages found run without barriers between them. Only schedules of stages say. */
export const withoutBarriers = (search: Search) => search["barriers"] === false;

/** What the scheduler had to say of its search. */
export function searchNotes(search: Search): string[] {
  const notes = search["notes"];
  return Array.isArray(notes) ? notes.filter((note) => typeof note === "string") : [];
}
