/** Which of a model's graphs is looked at, and how the address says so. */
import type { GraphChoice } from "@/api/queries";
import type { Granularity, JobSpec } from "@/api/types";

import { GRANULARITIES } from "./granularities";

export const MAX_BATCH = 4096;
export const MAX_LENGTH = 1 << 20;

/** What of the address says which graph; what is missing is the default. */
export interface GraphSearch {
  batch?: number;
  length?: number;
  granularity?: Granularity;
}


function isBetween(value: unknown, most: number): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= most;
}

const isGranularity = (value: unknown): value is Granularity =>
  typeof value === "string" && Object.hasOwn(GRANULARITIES, value);

/** What is valid of an address. */
export function parseGraphSearch(search: Record<string, unknown>): GraphSearch {
  const { batch, length, granularity } = search;
  return {
    ...(isBetween(batch, MAX_BATCH) ? { batch } : {}),
    ...(isBetween(length, MAX_LENGTH) ? { length } : {}),
    ...(isGranularity(granularity) ? { granularity } : {}),
  };
}

export const graphChoice = ({ batch, length, granularity }: GraphSearch): GraphChoice => ({
  batch_size: batch ?? 1,
  ...(length === undefined ? {} : { sequence_length: length }),
  granularity: granularity ?? "fused",
});

/** The address of the graph that a job works on; of its first batch size. */
export function graphSearch(spec: JobSpec): GraphSearch {
  const { batch_sizes: batches, sequence_length: length, granularity } = spec;
  return parseGraphSearch({ batch: batches[0], length, granularity });
}

/** `batch 8, fused operators`. */
export function choiceWords({ batch_size, sequence_length, granularity }: GraphChoice): string {
  const length = sequence_length === undefined ? "" : `sequence length ${sequence_length}, `;
  return `batch ${batch_size}, ${length}${GRANULARITIES[granularity].label.toLowerCase()}`;
}
