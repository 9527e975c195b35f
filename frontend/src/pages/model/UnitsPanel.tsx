import { Group, Select, TextInput } from "@mantine/core";
import { memo, useDeferredValue, useMemo, useState } from "react";

import type { GraphFacts } from "@/api/types";
import { Panel } from "@/components/Panel";
import { bytes, count, quantity } from "@/lib/format";
import { familyOf } from "@/lib/graph/colours";
import {
  operatorNames,
  type Sorting,
  sortedBy,
  type UnitColumn,
  type UnitFilter,
  type UnitRow,
  unitRows,
} from "@/lib/graph/unitTable";

import panelClasses from "./GraphPanel.module.css";
import type { Selection, Target } from "./selection";
import { type Column, RowButton, VirtualTable } from "@/components/VirtualTable";

const EVERYTHING: UnitFilter = { text: "", kind: null, block: null };
const IN_ORDER: Sorting = { column: "position", descending: false };

interface UnitsPanelProps {
  facts: GraphFacts;
  selection: Selection;
  onGoTo: (target: Target) => void;
}

/** The Units as a table: what the drawing shows, for reading, sorting and filtering. */
export const UnitsPanel = memo(function UnitsPanel({ facts, selection, onGoTo }: UnitsPanelProps) {
  const [filter, setFilter] = useState(EVERYTHING);
  const [sorting, setSorting] = useState(IN_ORDER);
  const wanted = useDeferredValue(filter);
  const rows = useMemo(() => unitRows(facts.units, wanted, sorting), [facts, wanted, sorting]);
  return (
    <Panel
      title="Units"
      note={
        rows.length === facts.units.length
          ? count(rows.length)
          : `${count(rows.length)} of ${count(facts.units.length)}`
      }
      actions={<Filters facts={facts} filter={filter} onChange={setFilter} />}
      flush
    >
      <VirtualTable<UnitRow>
        label="Units"
        columns={columns(sorting, (column) => setSorting(sortedBy(column, sorting)))}
        rows={rows}
        rowKey={(row) => row.position}
        selected={selection && "unit" in selection ? selection.unit : null}
        onSelect={(row) => onGoTo({ unit: row.position })}
        empty="No unit passes this filter"
        testId="units-table"
      />
    </Panel>
  );
});

interface FiltersProps {
  facts: GraphFacts;
  filter: UnitFilter;
  onChange: (filter: UnitFilter) => void;
}

function Filters({ facts, filter, onChange }: FiltersProps) {
  const kinds = useMemo(() => [...new Set(facts.units.map((unit) => unit.kind))].sort(), [facts]);
  return (
    <Group gap="xs">
      <TextInput
        size="xs"
        w={190}
        aria-label="Filter by name or operator"
        placeholder="Name or operator"
        value={filter.text}
        onChange={(event) => onChange({ ...filter, text: event.currentTarget.value })}
        data-testid="units-filter"
      />
      <Select
        size="xs"
        w={140}
        aria-label="Filter by kind"
        placeholder="Every kind"
        clearable
        data={kinds}
        value={filter.kind}
        onChange={(kind) => onChange({ ...filter, kind })}
      />
      <Select
        size="xs"
        w={120}
        aria-label="Filter by block"
        placeholder="Every block"
        clearable
        searchable
        limit={100}
        data={facts.blocks.map((_, index) => ({ value: String(index), label: `Block ${index}` }))}
        value={filter.block === null ? null : String(filter.block)}
        onChange={(block) => onChange({ ...filter, block: block === null ? null : Number(block) })}
      />
    </Group>
  );
}

interface UnitColumnOf {
  key: UnitColumn;
  title: string;
  width: number;
  numeric?: boolean;
  cell: Column<UnitRow>["cell"];
}

const COLUMNS: readonly UnitColumnOf[] = [
  { key: "position", title: "#", width: 62, cell: ({ position }) => position },
  {
    key: "name",
    title: "Name",
    width: 200,
    cell: ({ unit }) => <RowButton title={unit.name}>{unit.name}</RowButton>,
  },
  { key: "kind", title: "Kind", width: 132, cell: ({ unit }) => <Kind kind={unit.kind} /> },
  {
    key: "operators",
    title: "Operators",
    width: 180,
    cell: ({ unit }) => <span title={operatorNames(unit)}>{operatorNames(unit)}</span>,
  },
  {
    key: "flops",
    title: "FLOPs",
    width: 90,
    numeric: true,
    cell: ({ unit }) => <span title={count(unit.flops)}>{quantity(unit.flops)}</span>,
  },
  {
    key: "bytes_moved",
    title: "Bytes",
    width: 92,
    numeric: true,
    cell: ({ unit }) => <span title={count(unit.bytes_moved)}>{bytes(unit.bytes_moved)}</span>,
  },
  {
    key: "parameters",
    title: "Parameters",
    width: 108,
    numeric: true,
    cell: ({ unit }) => count(unit.parameters),
  },
  {
    key: "intensity",
    title: "FLOPs/B",
    width: 88,
    numeric: true,
    cell: ({ unit }) => unit.intensity.toFixed(1),
  },
  { key: "block", title: "Block", width: 76, numeric: true, cell: ({ unit }) => unit.block },
];

function columns(sorting: Sorting, onSort: (column: UnitColumn) => void): Column<UnitRow>[] {
  return COLUMNS.map((column) => ({
    ...column,
    sort: {
      direction:
        sorting.column !== column.key ? "none" : sorting.descending ? "descending" : "ascending",
      onSort: () => onSort(column.key),
    },
  }));
}

function Kind({ kind }: { kind: string }) {
  return (
    <Group gap={6} wrap="nowrap">
      <span className={panelClasses.swatch} style={{ background: familyOf(kind).colour }} />
      {kind}
    </Group>
  );
}
