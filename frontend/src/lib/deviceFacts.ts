/** Devices as people tell them apart: what is measured on, what is simulated, what each is. */
import type { Device } from "@/api/types";

import { factText, type FreeJson, isMapping, type Lines, linesOf } from "./facts";
import { bytes } from "./format";

/** Shown elsewhere: these have columns or lines of their own. */
const ELSEWHERE = new Set([
  "name",
  "kind",
  "description",
  "fingerprint",
  "simulated",
  "gpu",
  "providers",
]);

/** A job knows its device by name alone. */
export const isSimulatedName = (name: string) => name.startsWith("sim:");

export const isSimulated = (device: Device) =>
  device.facts["simulated"] === true || isSimulatedName(device.name);

export interface DeviceGroups {
  measured: Device[];
  simulated: Device[];
}

/** What exists first, what is simulated after it; the service's order within each. */
export function groupDevices(devices: readonly Device[]): DeviceGroups {
  return {
    measured: devices.filter((device) => !isSimulated(device)),
    simulated: devices.filter(isSimulated),
  };
}

/** A device's facts as names and texts; what a GPU is made of comes last. */
export function factLines(facts: Device["facts"]): Lines {
  const gpu = gpuOf(facts);
  return [...linesOf(facts, ELSEWHERE), ...(gpu ? gpuLines(gpu) : [])];
}

/** What a GPU is made of, or null for a device that is none. */
export function gpuOf(facts: Device["facts"]): FreeJson | null {
  const gpu = facts["gpu"];
  return isMapping(gpu) ? gpu : null;
}

/** The few figures that GPUs are compared by, as texts; empty where the facts do not have one. */
export interface GpuSummary {
  capability: string;
  sms: string;
  clock: string;
  fp32: string;
  bandwidth: string;
  l2: string;
}

export function gpuSummary(gpu: FreeJson): GpuSummary {
  const number = (key: string, show: (value: number) => string) =>
    typeof gpu[key] === "number" ? show(gpu[key]) : "";
  const capability = gpu["compute_capability"];
  return {
    capability: Array.isArray(capability) ? capability.join(".") : "",
    sms: number("sm_count", (value) => factText("", value)),
    clock: number("clock_mhz", (value) => factText("clock_mhz", value)),
    fp32: number("fp32_tflops", (value) => `${value.toFixed(1)} TFLOPS`),
    bandwidth: number("bandwidth_gb_s", (value) => `${factText("", value)} GB/s`),
    l2: number("l2_bytes", bytes),
  };
}

function gpuLines(gpu: FreeJson): Lines {
  const summary = gpuSummary(gpu);
  const lines = [
    ["Compute capability", summary.capability],
    ["SMs", summary.sms],
    ["Clock", summary.clock],
    ["FP32", summary.fp32],
    ["Bandwidth", summary.bandwidth],
    ["L2 cache", summary.l2],
  ] as const;
  return lines.filter(([, text]) => text !== "");
}
