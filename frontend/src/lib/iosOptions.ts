import type { JobSpec, SearchMode, Strategies, Threads } from "@/api/types";

interface Choice {
  label: string;
  note: string;
}

/** Which stages IOS measures: the label and what it means for the search. */
export const SEARCH_MODES: Record<SearchMode, Choice> = {
  guided: {
    label: "Guided",
    note: "Measures few stages: those that a model of contention expects to be good. What it ends with is seldom proven optimal.",
  },
  exact: {
    label: "Exact",
    note: "Measures all but the stages that bounds exclude, and proves its schedule optimal if the budget lasts.",
  },
  exhaustive: {
    label: "Exhaustive",
    note: "Measures every stage, as published. Takes longest.",
  },
};

/** How IOS may run a stage. */
export const STRATEGIES: Record<Strategies, Choice> = {
  both: {
    label: "Side by side or merged",
    note: "Of each stage the better way: the paper's IOS-Both.",
  },
  parallel: {
    label: "Side by side",
    note: "Groups of a stage run at once, and nothing is merged: IOS-Parallel.",
  },
  merge: {
    label: "Merged",
    note: "Operators of a stage become one kernel; others run one by one: IOS-Merge.",
  },
};

/** Whose threads the groups of a stage have. */
export const THREADS: Record<Threads, Choice> = {
  searched: {
    label: "Searched",
    note: "On a CPU, other numbers of threads are tried for the groups of a stage. Searches more.",
  },
  device: {
    label: "The device's",
    note: "Every group has the threads that the device gives it.",
  },
};

/** A job's choices in a line each. */
export function iosFacts({ ios }: JobSpec): [string, string][] {
  const percents = Number((ios.gap * 100).toPrecision(6)); // 0.07 * 100 is not quite 7
  const gap = ios.gap > 0 && ios.mode !== "exhaustive" ? `, to a gap of ${percents} %` : "";
  return [
    ["IOS pruning", `r = ${ios.max_units_per_group}, s = ${ios.max_groups_per_stage}`],
    ["IOS search", `${SEARCH_MODES[ios.mode].label.toLowerCase()}${gap}`],
    ["IOS stages", STRATEGIES[ios.strategies].label.toLowerCase()],
    ["IOS threads on a CPU", THREADS[ios.threads].label.toLowerCase()],
  ];
}
