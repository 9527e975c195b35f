import { describe, expect, it } from "vitest";

import { measurerWords } from "./measurers";
import {
  boundWords,
  coveredWords,
  deviationWords,
  endedWords,
  failureCount,
  failureWords,
  reactWords,
  throughput,
} from "./tuning";

describe("failures", () => {
  it("are counted by kind, the most frequent first", () => {
    const failures = { timeout: 2, compile: 3, crash: 0 };
    expect(failureWords(failures)).toBe("3 × does not compile, 2 × timeout");
    expect(failureCount(failures)).toBe(5);
  });

  it("of a kind that is new are told all the same", () =>
    expect(failureWords({ bad_luck: 1 })).toBe("1 × bad luck"));

  it("are nothing where there are none", () => expect(failureWords({})).toBe(""));
});

describe("throughput", () => {
  it("is GFLOP in a second", () => {
    expect(throughput(0.5, 10)).toBe("50.0");
    expect(throughput(2, 1)).toBe("2,000");
    expect(throughput(0.0001, 1)).toBe("0.100");
  });
});

describe("a round", () => {
  it("has bounds only of a degree that changes", () => {
    expect(boundWords({ lower: 6, upper: 18 })).toBe("6 to 18");
    expect(boundWords({ lower: 2, upper: 2 })).toBe("2");
    expect(boundWords({ lower: null, upper: null })).toBe("");
  });

  it("says how REACT changed the degree and why", () => {
    const react = { d_p_before: 8, d_p: 6, cause: "deviation_and_failures" };
    expect(reactWords(react)).toBe("8 → 6, deviation and failures");
    expect(reactWords({ ...react, d_p: 8, cause: "partial_round" })).toBe("8, partial round");
    expect(reactWords(null)).toBe("");
    expect(reactWords({ of: "another version" })).toBe("");
  });

  it("tells a deviation that is not known from none", () => {
    expect(deviationWords(null)).toBe("");
    expect(deviationWords(0)).toBe("0 %");
    expect(deviationWords(0.0312)).toBe("3.1 %");
  });
});

describe("coveredWords", () => {
  it("does not say all where something is missing", () => {
    expect(coveredWords(0.9996)).toBe("over 99 %");
    expect(coveredWords(1)).toBe("100 %");
    expect(coveredWords(0.953)).toBe("95 %");
  });
});

describe("endedWords", () => {
  it("says that the time was used up", () => {
    expect(endedWords({ ended: "budget" })).toContain("time was used up");
    expect(endedWords({ ended: null })).toBeNull();
  });
});

describe("measurerWords", () => {
  it("says how many are measured at once", () => {
    expect(measurerWords({ kind: "doppler", degree: 0, form: "paper", calibrator: "pooled" })).toBe(
      "DOPpler, at most one candidate per core",
    );
    expect(
      measurerWords({ kind: "doppler", degree: 16, form: "published", calibrator: "paper" }),
    ).toBe("DOPpler, at most 16 at once, REACT as published, Calibrator of the paper");
    expect(measurerWords({ kind: "naive", degree: 8, form: "paper", calibrator: "pooled" })).toBe(
      "Naive parallel, 8 at once",
    );
    expect(measurerWords({ kind: "serial", degree: 8, form: "paper", calibrator: "pooled" })).toBe("Serial");
  });
});
