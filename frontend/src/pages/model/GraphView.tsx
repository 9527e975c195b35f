import { Stack } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";

import type { GraphFacts } from "@/api/types";
import { isCollapsible } from "@/lib/graph/scene";
import { predecessors } from "@/lib/graph/words";

import { BlocksPanel } from "./BlocksPanel";
import { DetailsPanel } from "./DetailsPanel";
import { GraphPanel } from "./GraphPanel";
import classes from "./GraphView.module.css";
import type { Selection, Target } from "./selection";
import { TotalsPanel } from "./TotalsPanel";
import { UnitsPanel } from "./UnitsPanel";

const route = getRouteApi("/models/$model");

/** A graph and its tables; what is chosen in one is chosen in all. */
export function GraphView({ facts }: { facts: GraphFacts }) {
  const { unit: named } = route.useSearch();
  const navigate = route.useNavigate();
  const [selection, setSelection] = useState<Selection>(() => unitNamed(facts, named));
  const [target, setTarget] = useState<Target | null>(() => unitNamed(facts, named));
  const [collapsed, setCollapsed] = useState<ReadonlySet<number>>(new Set());
  const before = useMemo(() => predecessors(facts), [facts]);

  const select = useCallback(
    (next: Selection) => {
      setSelection(next);
      const name = next && "unit" in next ? facts.units[next.unit]?.name : undefined;
      void navigate({
        search: ({ unit: _, ...rest }) => (name === undefined ? rest : { ...rest, unit: name }),
        replace: true,
        resetScroll: false,
      });
    },
    [facts, navigate],
  );

  /** Chosen outside of the drawing: the drawing goes there, into a collapsed block if need be. */
  const goTo = useCallback(
    (next: Target) => {
      select(next);
      setTarget({ ...next });
      if ("unit" in next) {
        const block = facts.units[next.unit]?.block ?? -1;
        setCollapsed((all) => (all.has(block) ? new Set([...all].filter((b) => b !== block)) : all));
      }
    },
    [facts, select],
  );

  const toggle = useCallback((block: number) => {
    setCollapsed((all) => {
      const next = new Set(all);
      if (!next.delete(block)) next.add(block);
      return next;
    });
  }, []);

  const collapseAll = useCallback(
    (collapse: boolean) =>
      setCollapsed(
        new Set(
          collapse
            ? facts.blocks.flatMap((block, index) => (isCollapsible(block) ? [index] : []))
            : [],
        ),
      ),
    [facts],
  );

  return (
    <Stack gap="md" data-testid="model-graph">
      <TotalsPanel facts={facts} />
      <div className={classes.columns}>
        <Stack gap="md" miw={0}>
          <GraphPanel
            facts={facts}
            selection={selection}
            target={target}
            collapsed={collapsed}
            onSelect={select}
            onGoTo={goTo}
            onToggle={toggle}
            onCollapseAll={collapseAll}
          />
          <UnitsPanel facts={facts} selection={selection} onGoTo={goTo} />
          <BlocksPanel facts={facts} selection={selection} onGoTo={goTo} />
        </Stack>
        <div className={classes.side} data-chosen={selection !== null || undefined}>
          <DetailsPanel
            facts={facts}
            predecessors={before}
            selection={selection}
            collapsed={collapsed}
            onGoTo={goTo}
            onToggle={toggle}
            onClear={() => select(null)}
          />
        </div>
      </div>
    </Stack>
  );
}

function unitNamed(facts: GraphFacts, name: string | undefined): { unit: number } | null {
  const unit = name === undefined ? -1 : facts.units.findIndex((each) => each.name === name);
  return unit < 0 ? null : { unit };
}
