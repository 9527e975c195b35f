/** Under what conditions a result was measured. The worker writes it as free JSON. */
import type { Result } from "@/api/types";

import { factLabel, isMapping, type Lines, linesOf } from "./facts";

const TITLES: Record<string, string> = {
  before: "Before measuring",
  after: "After measuring",
};

type Conditions = Pick<Result, "environment" | "simulated">;

export interface Section {
  title: string;
  lines: Lines;
}

/** What `noiseComplaint` gives stands above all the others. */
const SAID_ALREADY = new Set(["complaint"]);

/** The facts at the top under a title of their own, then a section for each mapping, of which the
 * noise tells most. */
export function conditionSections({ environment, simulated }: Conditions): Section[] {
  const mappings = Object.entries(environment).filter(([, value]) => isMapping(value));
  const top = linesOf(environment, new Set(["simulated", ...mappings.map(([key]) => key)]));
  // Nothing disturbs a simulation, so its noise of 0 says nothing.
  const nested = mappings
    .filter(([key]) => !(simulated && key === "noise"))
    .sort(([a], [b]) => Number(b === "noise") - Number(a === "noise"));
  return [
    { title: "Conditions", lines: top },
    ...nested.map(([key, value]) => ({
      title: TITLES[key] ?? factLabel(key),
      lines: isMapping(value) ? linesOf(value, SAID_ALREADY) : [],
    })),
  ].filter(({ lines }) => lines.length > 0);
}

/** Why the machine was too busy for the figure to be trusted; null if it was quiet. */
export function noiseComplaint(environment: Result["environment"]): string | null {
  const noise = environment["noise"];
  const complaint = isMapping(noise) ? noise["complaint"] : null;
  return typeof complaint === "string" && complaint !== "" ? complaint : null;
}
