import { describe, expect, it } from "vitest";

import type { Device } from "@/api/types";

import { factLines, groupDevices, isSimulatedName } from "./deviceFacts";

const GPU = {
  name: "V100",
  compute_capability: [7, 0],
  sm_count: 80,
  clock_mhz: 1530,
  fp32_tflops: 15.7,
  bandwidth_gb_s: 900,
  l2_bytes: 6 * 1024 ** 2,
  threads_per_sm: 2048,
};

const device = (name: string, facts: Device["facts"]): Device => ({
  name,
  kind: name.split(":")[0] ?? "",
  description: "",
  fingerprint: "",
  facts,
  capabilities: { schedulers: [], zoo: [], zoo_families: [], formats: [], providers: ["aten"] },
  worker: "w",
  last_progress_at: "2026-11-21T12:00:00Z",
  online: true,
});

describe("factLines", () => {
  it("reads sizes, mappings and lists, and leaves out what is shown elsewhere", () => {
    expect(
      factLines({
        name: "cpu",
        parallelism: 16,
        memory_bytes: 8 * 1024 ** 3,
        versions: { torch: "2.13.0", plait: "0.1.0" },
        cores: [0, 1],
        simulated: false,
        providers: ["aten"],
        gpu: null,
      }),
    ).toEqual([
      ["Parallelism", "16"],
      ["Memory", "8.0 GiB"],
      ["Versions", "torch 2.13.0, plait 0.1.0"],
      ["Cores", "0, 1"],
    ]);
  });

  it("says what a GPU is made of by the figures that people compare", () => {
    expect(factLines({ memory_bytes: 16 * 1024 ** 3, gpu: GPU })).toEqual([
      ["Memory", "16.0 GiB"],
      ["Compute capability", "7.0"],
      ["SMs", "80"],
      ["Clock", "1,530 MHz"],
      ["FP32", "15.7 TFLOPS"],
      ["Bandwidth", "900 GB/s"],
      ["L2 cache", "6.0 MiB"],
    ]);
  });

  it("does not invent what a GPU does not say", () => {
    expect(factLines({ gpu: { name: "V100" } })).toEqual([]);
  });
});

describe("groupDevices", () => {
  it("sets apart what is simulated and keeps the order", () => {
    const devices = [
      device("sim:v100", { simulated: true }),
      device("cpu", { simulated: false }),
      device("sim:h100", { simulated: true }),
      device("cuda:0", {}),
    ];
    const { measured, simulated } = groupDevices(devices);
    expect(measured.map(({ name }) => name)).toEqual(["cpu", "cuda:0"]);
    expect(simulated.map(({ name }) => name)).toEqual(["sim:v100", "sim:h100"]);
    expect(isSimulatedName("sim:v100")).toBe(true);
    expect(isSimulatedName("cuda:0")).toBe(false);
  });
});
