import { Paper } from "@mantine/core";
import type { ReactNode } from "react";

import type { GraphFacts } from "@/api/types";
import { bytes, count, quantity } from "@/lib/format";

import classes from "./TotalsPanel.module.css";

/** The graph in nine numbers. */
export function TotalsPanel({ facts }: { facts: GraphFacts }) {
  const { totals, blocks } = facts;
  const path = totals.critical_path;
  return (
    <Paper component="section" aria-label="Totals" px="md" py="sm" data-testid="graph-totals">
      <dl className={classes.totals}>
        <Total name="Units" value={count(totals.units)} />
        <Total name="Operators" value={count(totals.operators)} />
        <Total name="Edges" value={count(totals.edges)} />
        <Total name="Blocks" value={count(blocks.length)} />
        <Total name="Width d" value={count(totals.width)} note="side by side" />
        <Total
          name="Critical path"
          value={`${count(path.length)} units`}
          note={`${quantity(path.flops)}FLOPs`}
        />
        <Total name="Arithmetic" value={`${quantity(totals.flops)}FLOPs`} />
        <Total name="Parameters" value={quantity(totals.parameters)} note={bytes(totals.weight_bytes)} />
        <Total name="Moved" value={bytes(totals.bytes_moved)} />
      </dl>
    </Paper>
  );
}

function Total({ name, value, note }: { name: string; value: ReactNode; note?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}
