/** What is chosen in the graph and the tables: a Unit or a Block, by position. */
import { blockNode } from "@/lib/graph/nodes";

export type Selection = { unit: number } | { block: number } | null;

export function selectedNode(selection: Selection): number | null {
  if (selection === null) return null;
  return "unit" in selection ? selection.unit : blockNode(selection.block);
}

/** Where the drawing should go; a new object for every request, also for the same place. */
export type Target = Exclude<Selection, null>;
