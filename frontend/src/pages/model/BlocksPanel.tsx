import { Checkbox, Text } from "@mantine/core";
import { memo, useMemo, useState } from "react";

import type { Block, BlockCount, GraphFacts } from "@/api/types";
import { Panel } from "@/components/Panel";
import { count } from "@/lib/format";
import { isCollapsible } from "@/lib/graph/scene";
import { blockTitle, type CountCells, countCells } from "@/lib/graph/words";

import type { Selection, Target } from "./selection";
import { type Column, RowButton, VirtualTable } from "@/components/VirtualTable";
import classes from "@/components/VirtualTable.module.css";

interface BlockRow {
  index: number;
  block: Block;
}

interface BlocksPanelProps {
  facts: GraphFacts;
  selection: Selection;
  onGoTo: (target: Target) => void;
}

/** The Blocks, and how much there is to search in each, as IOS counts it. */
export const BlocksPanel = memo(function BlocksPanel(props: BlocksPanelProps) {
  const { facts, selection, onGoTo } = props;
  const single = facts.blocks.filter((block) => !isCollapsible(block)).length;
  const [all, setAll] = useState(single === facts.blocks.length);
  const rows = useMemo(
    () =>
      facts.blocks
        .map((block, index) => ({ block, index }))
        .filter(({ block }) => all || isCollapsible(block)),
    [facts, all],
  );
  return (
    <Panel
      title="Blocks"
      note="scheduled one after the other; counts without pruning"
      actions={
        single > 0 && (
          <Checkbox
            size="xs"
            label={`with ${count(single)} of one unit`}
            checked={all}
            onChange={(event) => setAll(event.currentTarget.checked)}
          />
        )
      }
      flush
    >
      <VirtualTable<BlockRow>
        label="Blocks"
        columns={COLUMNS}
        groups={<Groups />}
        rows={rows}
        rowKey={(row) => row.index}
        selected={selection && "block" in selection ? selection.block : null}
        onSelect={(row) => onGoTo({ block: row.index })}
        empty="Every block is a single unit: there is nothing to search"
        testId="blocks-table"
      />
    </Panel>
  );
});

function Groups() {
  return (
    <tr>
      <th colSpan={4} aria-label="Block" />
      <th colSpan={4} scope="colgroup" className={classes.group}>
        The paper's definition
      </th>
      <th colSpan={3} scope="colgroup" className={classes.group}>
        The published code's
      </th>
    </tr>
  );
}

const TITLES = {
  states: "States",
  transitions: "Transitions",
  schedules: "Schedules",
  stages: "Stages",
} as const;

const WIDTHS = { states: 84, transitions: 108, schedules: 116, stages: 80 } as const;

type CountName = keyof typeof TITLES;

const COLUMNS: readonly Column<BlockRow>[] = [
  {
    key: "block",
    title: "Block",
    width: 96,
    cell: ({ index }) => <RowButton title={blockTitle(index)}>{blockTitle(index)}</RowButton>,
  },
  { key: "n", title: "n", width: 56, numeric: true, cell: ({ block }) => count(block.n) },
  { key: "d", title: "d", width: 50, numeric: true, cell: ({ block }) => count(block.width) },
  {
    key: "like",
    title: "Like",
    width: 84,
    cell: ({ block }) => (block.equal_to === null ? "" : blockTitle(block.equal_to)),
  },
  ...countColumns("paper", ["states", "transitions", "schedules", "stages"]),
  ...countColumns("published", ["states", "transitions", "schedules"]),
];

function countColumns(
  convention: "paper" | "published",
  names: readonly CountName[],
): Column<BlockRow>[] {
  return names.map((name, index) => ({
    key: `${convention} ${name}`,
    title: TITLES[name],
    width: WIDTHS[name],
    numeric: true,
    cell: ({ block }) => (
      <CountCell counted={block.counts[convention]} name={name} first={index === 0} />
    ),
  }));
}

interface CountCellProps {
  counted: BlockCount;
  name: CountName;
  first: boolean;
}

/** Why there is no count is said once, in the first column of its group. */
function CountCell({ counted, name, first }: CountCellProps) {
  const cells: CountCells | string = countCells(counted);
  if (typeof cells === "string") {
    return (
      <Text size="xs" c="dimmed" span title={cells}>
        {first ? "not counted" : "–"}
      </Text>
    );
  }
  return <span title={name === "schedules" ? cells.exactly : undefined}>{cells[name]}</span>;
}
