import { describe, expect, it } from "vitest";

import { factLabel, factText, linesOf } from "./facts";

describe("factLabel", () => {
  it("reads a key, and leaves its unit to the value", () => {
    expect(factLabel("load_per_core")).toBe("Load per core");
    expect(factLabel("memory_bytes")).toBe("Memory");
    expect(factLabel("gpu_clock_mhz")).toBe("GPU clock");
    expect(factLabel("busy_share")).toBe("Busy share");
    expect(factLabel("taken_at")).toBe("Taken");
    expect(factLabel("mhz")).toBe("MHz");
    expect(factLabel("onednn")).toBe("oneDNN");
    expect(factLabel("total_gib")).toBe("Total");
    expect(factLabel("torch")).toBe("Torch");
    expect(factLabel("OMP_NUM_THREADS")).toBe("OMP_NUM_THREADS");
    expect(factLabel("s")).toBe("S");
  });
});

describe("factText", () => {
  it("gives numbers their unit", () => {
    expect(factText("memory_bytes", 8 * 1024 ** 3)).toBe("8.0 GiB");
    expect(factText("busy_share", 0.125)).toBe("13 %");
    expect(factText("gpu_clock_mhz", 1530)).toBe("1,530 MHz");
    expect(factText("load_per_core", 1.234567)).toBe("1.235");
  });
  it("writes times as the reader's clock has them, and leaves what is none", () => {
    expect(factText("taken_at", "2026-11-21T12:00:00+00:00")).toContain("2026");
    expect(factText("taken_at", "2026-11-21T12:00:00+00:00")).not.toContain("T");
    expect(factText("taken_at", "some day")).toBe("some day");
  });
  it("puts lists and mappings in one line", () => {
    expect(factText("others", [{ pid: 29426, name: "make", cores: 0.5 }])).toBe(
      "pid 29426, name make, cores 0.5",
    );
    expect(factText("allowed", true)).toBe("yes");
    expect(factText("complaint", null)).toBe("");
  });
});

describe("linesOf", () => {
  it("leaves out what is shown elsewhere and what is not known", () => {
    expect(linesOf({ name: "x", gpu: null, cores: 2 }, new Set(["name"]))).toEqual([["Cores", "2"]]);
  });
});
