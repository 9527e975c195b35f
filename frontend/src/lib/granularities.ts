import type { Granularity } from "@/api/types";

/** What a job may schedule as one unit: the label and what it means for the search. */
export const GRANULARITIES: Record<Granularity, { label: string; note: string }> = {
  operator: {
    label: "Operator",
    note: "Every kernel is a unit of its own. The largest search; nothing is fused.",
  },
  fused: {
    label: "Fused operators",
    note: "A layer with its activation, a separable convolution or a chain of element-wise operators is one unit.",
  },
  block: {
    label: "Blocks",
    note: "Every run of units between two branchings is one unit. The smallest search.",
  },
};
