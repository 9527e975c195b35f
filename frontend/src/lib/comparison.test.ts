import { describe, expect, it } from "vitest";

import type { BatchSummary, Result } from "@/api/types";

import { beatsBaseline, compare } from "./comparison";

const result = (scheduler: string, batch_size: number, latency_ms: number): Result => ({
  id: `${scheduler}-${batch_size}`,
  batch_size,
  scheduler,
  latency_ms,
  low_ms: latency_ms * 0.99,
  high_ms: latency_ms * 1.01,
  samples: 50,
  simulated: false,
  verified: true,
  max_abs_error: 0,
  winner: false,
  provider: "aten",
  kind: "schedule",
  place: null,
  search: {},
  environment: {},
  created_at: "2026-11-21T12:00:00Z",
});

describe("compare", () => {
  it("orders the schedulers of each batch by latency, and names what is to come", () => {
    const asked = { batch_sizes: [1, 16], schedulers: ["greedy", "ios"] };
    const [first, second] = compare(asked, [
      result("sequential", 16, 40),
      result("greedy", 1, 12),
      result("sequential", 1, 10),
      result("ios", 1, 8),
    ]);
    expect(first?.batchSize).toBe(1);
    expect(first?.rows.map((row) => row.result.scheduler)).toEqual(["ios", "sequential", "greedy"]);
    expect(first?.rows.map((row) => row.ratio)).toEqual([1.25, 1, 10 / 12]);
    expect(first?.pending).toEqual([]);
    expect(second?.batchSize).toBe(16);
    expect(second?.pending).toEqual(["greedy", "ios"]);
  });

  it("prefers what was measured in turns to two medians", () => {
    const turns = { speedup: 1.1, speedup_low: 1.05, speedup_high: 1.2, verdict: "faster" };
    const [batch] = compare({ batch_sizes: [1], schedulers: ["ios"] }, [
      result("sequential", 1, 10),
      { ...result("ios", 1, 8), search: turns },
    ]);
    expect(batch?.rows[0]?.ratio).toBe(1.1);
    expect(batch?.rows[0]?.verdict).toEqual({ speedup: 1.1, low: 1.05, high: 1.2, differs: true });
    expect(batch?.rows[1]?.verdict).toBeNull();
  });

  it("orders those that have a place by it, and takes all of auto for pending until it is there", () => {
    const asked = { batch_sizes: [1, 8], schedulers: ["auto"] };
    const [first, second] = compare(asked, [
      { ...result("torch.compile", 1, 7), kind: "alternative", place: 2 },
      { ...result("ios", 1, 7.05), place: 1 },
      { ...result("sequential", 1, 10), place: 3 },
    ]);
    expect(first?.rows.map((row) => row.result.scheduler)).toEqual([
      "ios",
      "torch.compile",
      "sequential",
    ]);
    expect(first?.pending).toEqual([]);
    expect(second?.pending).toEqual(["sequential", "auto"]);
  });

  it("has no ratio before the baseline is there", () => {
    const [batch] = compare({ batch_sizes: [1], schedulers: ["ios"] }, [result("ios", 1, 8)]);
    expect(batch?.rows[0]?.ratio).toBeNull();
    expect(batch?.pending).toEqual(["sequential"]);
  });
});

describe("beatsBaseline", () => {
  const summary = (winner: string, speedup: number): BatchSummary => ({
    batch_size: 1,
    winner,
    latency_ms: 8,
    baseline_ms: 8 * speedup,
    speedup,
    simulated: false,
    tied_with: [],
    skipped: [],
    why: [],
    floors: [],
  });
  it("is honest about a tie", () => {
    expect(beatsBaseline(summary("ios", 1.08))).toBe(true);
    expect(beatsBaseline(summary("ios", 1))).toBe(false);
    expect(beatsBaseline(summary("sequential", 1))).toBe(false);
  });
});
