/** How candidates of kernels are measured, in words. */
import type { JobSpec, KernelOptions } from "@/api/types";

import { count } from "./format";

export type MeasurerKind = KernelOptions["measurer"]["kind"];
export type ReactForm = KernelOptions["measurer"]["form"];
export type CalibratorForm = KernelOptions["measurer"]["calibrator"];

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

export const CALIBRATOR_FORMS: Record<
  CalibratorForm,
  { label: string; note: string; words: string }
> = {
  pooled: {
    label: "From several rounds",
    note: "What recent rounds told corrects latencies.",
    words: "",
  },
  paper: {
    label: "As in the paper",
    note: "Each round by itself, equations 3 to 5 of DOPpler.",
    words: "Calibrator of the paper",
  },
  published: {
    label: "As published",
    note: "What the authors' code does, which differs.",
    words: "Calibrator as published",
  },
};

/** How a search for schedules measures its stages. */
export const STAGE_MEASURERS: Record<JobSpec["measurer"], { label: string; note: string }> = {
  serial: { label: "One at a time", note: "Nothing runs beside a stage that is measured." },
  doppler: {
    label: "Beside each other, as DOPpler does",
    note: "Sooner done. What is chosen is measured again alone.",
  },
};

export type Hosts = KernelOptions["hosts"];

/** Where candidates of kernels are measured. */
export const HOSTS: Record<Hosts, { label: string; note: string }> = {
  own: { label: "The worker's own", note: "On the machine of the worker that takes the job." },
  all: {
    label: "All of its kind",
    note: "Beside it on every measuring host that has the same device.",
  },
};

/** The measurer and its degree of parallelism in a line. */
export function measurerWords(measurer: KernelOptions["measurer"]): string {
  const { kind, degree, form, calibrator } = measurer;
  const label = MEASURERS[kind].label;
  if (kind === "serial") return label;
  const bound = kind === "naive" ? "" : "at most ";
  const at = degree === 0 ? `${bound}one candidate per core` : `${bound}${count(degree)} at once`;
  const forms =
    kind === "doppler"
      ? [form === "published" ? "REACT as published" : "", CALIBRATOR_FORMS[calibrator].words]
      : [];
  return [label, at, ...forms].filter(Boolean).join(", ");
}
