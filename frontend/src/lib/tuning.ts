/** What the tuning of kernels has come to, in words. */
import type { Tuning, TuningRound } from "@/api/types";

import { isMapping } from "./facts";
import { count, percent } from "./format";

const FAILURES: Record<string, string> = {
  compile: "does not compile",
  wrong_result: "wrong result",
  crash: "crash",
  launch: "launch error",
  out_of_memory: "out of memory",
  timeout: "timeout",
};

/** Why a candidate has no latency. */
export const failureWord = (kind: string) => FAILURES[kind] ?? kind.replaceAll("_", " ");

/** `2 × timeout, 1 × crash`, the most frequent first; nothing where nothing failed. */
export function failureWords(failures: Readonly<Record<string, number>>): string {
  return Object.entries(failures)
    .filter(([, times]) => times > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([kind, times]) => `${count(times)} × ${failureWord(kind)}`)
    .join(", ");
}

export const failureCount = (failures: Readonly<Record<string, number>>) =>
  Object.values(failures).reduce((sum, times) => sum + times, 0);

/** GFLOP/s to three significant digits, of `gflops` GFLOP in so many ms. */
export function throughput(gflops: number, ms: number): string {
  const value = (gflops / ms) * 1000;
  return value >= 100 ? count(Math.round(value)) : value.toPrecision(3);
}

/** Between which degrees of parallelism the next full round will be; nothing of a fixed degree. */
export function boundWords({ lower, upper }: Pick<TuningRound, "lower" | "upper">): string {
  if (lower === null || upper === null) return "";
  return lower === upper ? String(lower) : `${lower} to ${upper}`;
}

/** δ mean in percent; nothing where it is not known. */
export const deviationWords = (delta: number | null) => (delta === null ? "" : percent(delta));

/** What REACT made of the round: `1 → 13, accurate`. Nothing of a measurer that has none. */
export function reactWords(react: TuningRound["react"]): string {
  if (!isMapping(react)) return "";
  const { d_p_before: before, d_p: after, cause } = react;
  if (typeof before !== "number" || typeof after !== "number") return "";
  const why = typeof cause === "string" ? `, ${cause.replaceAll("_", " ")}` : "";
  return before === after ? `${after}${why}` : `${before} → ${after}${why}`;
}

/** The programs' part of a model's FLOPs; all of it only where nothing is missing. */
export const coveredWords = (covered: number) =>
  covered < 1 && covered >= 0.995 ? "over 99 %" : percent(covered);

const ENDINGS: Record<NonNullable<Tuning["ended"]>, string> = {
  complete: "All trials were made.",
  exhausted: "No design space had more candidates.",
  budget: "The time was used up before all trials were made; what there was is ranked.",
};

/** Why tuning ended; null until it has. */
export const endedWords = ({ ended }: Pick<Tuning, "ended">) => (ended ? ENDINGS[ended] : null);

/** The newest first. */
export const newestFirst = (rounds: readonly TuningRound[]) => [...rounds].reverse();
