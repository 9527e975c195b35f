/** How candidates of kernels are measured, in words. */
import type { KernelOptions } from "@/api/types";

import { count } from "./format";

export type MeasurerKind = KernelOptions["measurer"]["kind"];
export type ReactForm = KernelOptions["measurer"]["form"];

export const MEASURERS: Record<MeasurerKind, { label: string; note: string }> = {
  doppler: {
    label: "DOPpler",
    note: "Several at once, as many as the deviation from isolated measurements allows; outliers are measured again.",
  },
  naive: {
    label: "Naive parallel",
    note: "Always the same number at once, whatever that does to the latencies.",
  },
  serial: {
    label: "Serial",
    note: "One after the other: nothing disturbs a measurement, and it takes longest.",
  },
};

export const REACT_FORMS: Record<ReactForm, { label: string; note: string }> = {
  paper: { label: "As in the paper", note: "Equations 6 and 7 of DOPpler." },
  published: { label: "As published", note: "What the authors' code does, which differs." },
};

/** The measurer and its degree of parallelism in a line. */
export function measurerWords({ kind, degree, form }: KernelOptions["measurer"]): string {
  const label = MEASURERS[kind].label;
  if (kind === "serial") return label;
  const bound = kind === "naive" ? "" : "at most ";
  const at = degree === 0 ? `${bound}one candidate per core` : `${bound}${count(degree)} at once`;
  return `${label}, ${at}${form === "published" ? ", REACT as published" : ""}`;
}
