import {
  ActionIcon,
  Button,
  Chip,
  Group,
  SegmentedControl,
  Select,
  Tooltip,
  useComputedColorScheme,
} from "@mantine/core";
import { IconArrowsMaximize, IconMinus, IconPlus } from "@tabler/icons-react";
import { useMemo, useRef, useState } from "react";

import type { GraphFacts } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { Loading } from "@/components/Loading";
import { Panel } from "@/components/Panel";
import type { ColourMode } from "@/lib/graph/colours";
import type { BlockLayout } from "@/lib/graph/layout";
import { buildScene, isCollapsible, pathEdges } from "@/lib/graph/scene";
import type { GraphView } from "@/lib/graph/view";

import { GraphCanvas } from "./GraphCanvas";
import { GraphLegend } from "./GraphLegend";
import classes from "./GraphPanel.module.css";
import { labelBlocks, labelUnits } from "./labels";
import type { Selection, Target } from "./selection";
import { useLayouts } from "./useLayouts";

const OFFERED = 50;
const ZOOM_STEP = 1.4;

interface GraphPanelProps {
  facts: GraphFacts;
  selection: Selection;
  target: Target | null;
  collapsed: ReadonlySet<number>;
  onSelect: (selection: Selection) => void;
  onGoTo: (target: Target) => void;
  onToggle: (block: number) => void;
  onCollapseAll: (collapse: boolean) => void;
}

/** The drawing with its search, colours and zoom. */
export function GraphPanel(props: GraphPanelProps) {
  const { facts } = props;
  const [mode, setMode] = useState<ColourMode>("kind");
  const [path, setPath] = useState(false);
  const layouts = useLayouts(facts);
  const view = useRef<GraphView>(null);
  const foldable = facts.blocks.some(isCollapsible);
  return (
    <Panel title="Graph" note="click to choose, double-click a block to open or close it" flush>
      <Group gap="xs" px="md" pb="xs" justify="space-between">
        <Group gap="xs" className={classes.tools}>
          <UnitSearch {...props} />
          <SegmentedControl
            size="xs"
            aria-label="Colour units by"
            value={mode}
            onChange={(value) => setMode(value as ColourMode)}
            data={[
              { value: "kind", label: "Kind" },
              { value: "cost", label: "Cost" },
            ]}
            data-testid="graph-colours"
          />
          <Chip
            size="xs"
            checked={path}
            onChange={setPath}
            title="The path of most FLOPs"
            data-testid="critical-path"
          >
            Critical path
          </Chip>
          {foldable && <FoldButtons {...props} />}
        </Group>
        <ZoomButtons view={view} />
      </Group>
      <div className={classes.drawing}>
        {layouts === "pending" && <Loading label="Laying the graph out" />}
        {layouts === "failed" && (
          <EmptyState title="The graph could not be drawn">
            The tables below hold the same. Loading the page again may help.
          </EmptyState>
        )}
        {typeof layouts !== "string" && (
          <Drawing {...props} layouts={layouts} mode={mode} path={path} view={view} />
        )}
      </div>
      <GraphLegend facts={facts} mode={mode} />
    </Panel>
  );
}

interface DrawingProps extends GraphPanelProps {
  layouts: readonly BlockLayout[];
  mode: ColourMode;
  /** Whether to emphasise the critical path. */
  path: boolean;
  view: React.RefObject<GraphView | null>;
}

function Drawing({ facts, layouts, mode, path, collapsed, view, ...props }: DrawingProps) {
  const scheme = useComputedColorScheme("light");
  const scene = useMemo(() => buildScene(facts, layouts, collapsed), [facts, layouts, collapsed]);
  const units = useMemo(() => labelUnits(facts, mode, scheme), [facts, mode, scheme]);
  const blocks = useMemo(() => labelBlocks(facts), [facts]);
  const picture = useMemo(
    () => ({
      scene,
      units,
      blocks,
      path: path ? pathEdges(scene, facts.totals.critical_path.units) : [],
      filled: mode === "cost",
    }),
    [scene, units, blocks, path, facts, mode],
  );
  return (
    <GraphCanvas
      ref={view}
      label={`Operator graph of ${facts.name}: ${facts.units.length} units in ${facts.blocks.length} blocks. The table of units below holds the same.`}
      picture={picture}
      selection={props.selection}
      target={props.target}
      onSelect={props.onSelect}
      onToggle={props.onToggle}
    />
  );
}

function UnitSearch({ facts, selection, onGoTo }: GraphPanelProps) {
  const names = useMemo(() => facts.units.map((unit) => unit.name), [facts]);
  const chosen = selection && "unit" in selection ? (names[selection.unit] ?? null) : null;
  return (
    <Select
      aria-label="Find a unit"
      placeholder="Find a unit"
      size="xs"
      className={classes.search}
      searchable
      selectFirstOptionOnChange
      nothingFoundMessage="No unit is called that"
      limit={OFFERED}
      data={names}
      value={chosen}
      onChange={(name) => name !== null && onGoTo({ unit: names.indexOf(name) })}
      data-testid="unit-search"
    />
  );
}

function FoldButtons({ collapsed, onCollapseAll }: GraphPanelProps) {
  return (
    <Button
      size="xs"
      variant="default"
      onClick={() => onCollapseAll(collapsed.size === 0)}
      data-testid="fold-all"
    >
      {collapsed.size === 0 ? "Collapse blocks" : "Expand blocks"}
    </Button>
  );
}

function ZoomButtons({ view }: { view: React.RefObject<GraphView | null> }) {
  return (
    <ActionIcon.Group>
      <Tooltip label="Zoom out (−)">
        <ActionIcon
          variant="default"
          size={30}
          aria-label="Zoom out"
          onClick={() => view.current?.zoomBy(1 / ZOOM_STEP)}
        >
          <IconMinus size={16} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Show everything (0)">
        <ActionIcon
          variant="default"
          size={30}
          aria-label="Show everything"
          onClick={() => view.current?.fitAll()}
        >
          <IconArrowsMaximize size={16} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Zoom in (+)">
        <ActionIcon
          variant="default"
          size={30}
          aria-label="Zoom in"
          onClick={() => view.current?.zoomBy(ZOOM_STEP)}
        >
          <IconPlus size={16} />
        </ActionIcon>
      </Tooltip>
    </ActionIcon.Group>
  );
}
