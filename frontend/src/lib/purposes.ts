/** What a job is for, in words. */
import type { Purpose } from "@/api/types";

export const PURPOSES: Record<Purpose, { label: string; short: string; note: string }> = {
  tune: {
    label: "Schedule a model",
    short: "Schedule",
    note: "Which operators run side by side, on which streams, and with whose kernels.",
  },
  kernels: {
    label: "Tune kernels",
    short: "Kernels",
    note: "Tensor programs, of a model or by name: many candidates are built, measured in parallel, and the fastest kept.",
  },
  inspect: {
    label: "Inspect a model",
    short: "Inspection",
    note: "Only the graph: nothing is measured.",
  },
};
