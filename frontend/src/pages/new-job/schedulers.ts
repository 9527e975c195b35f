/** One line on each scheduler; a name that is not here is shown without. */
export const SCHEDULER_NOTES: Record<string, string> = {
  sequential: "One operator after another: the baseline that every other is compared with.",
  greedy: "Everything that is ready runs side by side, stage by stage. No measuring.",
  nimble: "All that can run side by side does, on streams with the fewest waits. No measuring.",
  opara: "Streams and a launch order from one profiled run: small kernels first, compute and memory in turns.",
  ios: "Dynamic programming over stages, on measured latencies. Takes longest; how it searches is under Advanced.",
};
