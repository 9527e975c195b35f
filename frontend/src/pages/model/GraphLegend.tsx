import { useComputedColorScheme } from "@mantine/core";

import type { GraphFacts } from "@/api/types";
import { quantity } from "@/lib/format";
import { type ColourMode, familiesIn, sequential } from "@/lib/graph/colours";

import classes from "./GraphPanel.module.css";
import { mostFlops } from "./labels";

const STEPS = [0, 0.25, 0.5, 0.75, 1];

/** What the colours mean. */
export function GraphLegend({ facts, mode }: { facts: GraphFacts; mode: ColourMode }) {
  const scheme = useComputedColorScheme("light");
  if (mode === "kind") {
    return (
      <ul className={classes.legend} aria-label="Colours of kinds" data-testid="graph-legend">
        {familiesIn(facts.units.map((unit) => unit.kind)).map((family) => (
          <li key={family.name}>
            <span className={classes.swatch} style={{ background: family.colour }} />
            {family.name}
          </li>
        ))}
      </ul>
    );
  }
  const most = mostFlops(facts);
  const stops = STEPS.map((step) => sequential(step, scheme)).join(", ");
  return (
    <ul className={classes.legend} aria-label="Colours of cost" data-testid="graph-legend">
      <li>
        0
        <span
          className={classes.ramp}
          style={{ background: `linear-gradient(to right, ${stops})` }}
        />
        {quantity(most)}FLOPs in one unit; a quarter of that is in the middle
      </li>
    </ul>
  );
}
