/** Which Units the table shows, and in which order. */
import type { Unit } from "@/api/types";

export type UnitColumn =
  | "position"
  | "name"
  | "kind"
  | "operators"
  | "flops"
  | "bytes_moved"
  | "parameters"
  | "intensity"
  | "block";

export interface Sorting {
  column: UnitColumn;
  descending: boolean;
}

export interface UnitFilter {
  /** Part of the name or of an operator's name, in any case. */
  text: string;
  kind: string | null;
  block: number | null;
}

export interface UnitRow {
  position: number;
  unit: Unit;
}

const TEXTUAL: ReadonlySet<UnitColumn> = new Set(["name", "kind", "operators"]);

/** A click on a column: sorts by it, numbers from the largest on; a second click turns round. */
export function sortedBy(column: UnitColumn, before: Sorting): Sorting {
  if (before.column === column) return { column, descending: !before.descending };
  return { column, descending: !TEXTUAL.has(column) && column !== "position" && column !== "block" };
}

/** The rows that pass the filter, sorted; equal ones stay in topological order. */
export function unitRows(
  units: readonly Unit[],
  filter: UnitFilter,
  { column, descending }: Sorting,
): UnitRow[] {
  const sign = descending ? -1 : 1;
  return units
    .map((unit, position) => ({ unit, position }))
    .filter(({ unit }) => passes(unit, filter))
    .sort((a, b) => sign * compare(a, b, column) || a.position - b.position);
}

function passes(unit: Unit, { text, kind, block }: UnitFilter): boolean {
  const wanted = text.trim().toLowerCase();
  return (
    (kind === null || unit.kind === kind) &&
    (block === null || unit.block === block) &&
    (wanted === "" ||
      unit.name.toLowerCase().includes(wanted) ||
      unit.operators.some((operator) => operator.toLowerCase().includes(wanted)))
  );
}

function compare(a: UnitRow, b: UnitRow, column: UnitColumn): number {
  switch (column) {
    case "position":
      return a.position - b.position;
    case "name":
    case "kind":
      return a.unit[column].localeCompare(b.unit[column], "en", { numeric: true });
    case "operators":
      return operatorNames(a.unit).localeCompare(operatorNames(b.unit), "en");
    default:
      return a.unit[column] - b.unit[column];
  }
}

/** `aten.conv2d.default` is `conv2d`. */
export const shortOperator = (target: string) => target.split(".")[1] ?? target;

/** `conv2d, relu`; `conv2d, relu ×3` where one follows itself. */
export function operatorNames(unit: Unit): string {
  const runs: { name: string; times: number }[] = [];
  for (const target of unit.operators) {
    const name = shortOperator(target);
    const last = runs.at(-1);
    if (last?.name === name) last.times += 1;
    else runs.push({ name, times: 1 });
  }
  return runs.map(({ name, times }) => (times > 1 ? `${name} ×${times}` : name)).join(", ");
}
