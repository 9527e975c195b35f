import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";

import classes from "./VirtualTable.module.css";

const ROW_HEIGHT = 33;

export interface Column<Row> {
  key: string;
  title: ReactNode;
  width: number;
  numeric?: boolean;
  cell: (row: Row) => ReactNode;
  /** Set on a column that can be sorted by. */
  sort?: { direction: "ascending" | "descending" | "none"; onSort: () => void };
}

interface VirtualTableProps<Row> {
  label: string;
  columns: readonly Column<Row>[];
  /** Headings that span several columns. */
  groups?: ReactNode;
  rows: readonly Row[];
  rowKey: (row: Row) => number;
  /** Both where a row can be chosen, neither where there is nothing to choose. */
  selected?: number | null;
  onSelect?: (row: Row) => void;
  empty: string;
  testId: string;
}

/** A table of which only the rows in sight are in the document, however many there are. */
export function VirtualTable<Row>({ rows, columns, rowKey, ...props }: VirtualTableProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const head = ROW_HEIGHT * (props.groups ? 2 : 1);
  const virtual = useVirtualizer({
    // The head scrolls with the rows, and then stays and covers them.
    scrollMargin: head,
    scrollPaddingStart: head,
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  const selected = props.selected ?? null;
  const at = selected === null ? -1 : rows.findIndex((row) => rowKey(row) === selected);
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
    // Sorting and filtering must not scroll; a choice must.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [selected]);
  const items = virtual.getVirtualItems();
  const above = (items[0]?.start ?? head) - head;
  const below = virtual.getTotalSize() - ((items.at(-1)?.end ?? head) - head);
  return (
    <div ref={scroller} className={classes.scroller} tabIndex={0} role="group" aria-label={props.label}>
      <table
        className={classes.table}
        style={{ minWidth: columns.reduce((sum, column) => sum + column.width, 0) }}
        aria-rowcount={rows.length + 1}
        data-testid={props.testId}
      >
        <colgroup>
          {columns.map((column) => (
            <col key={column.key} style={{ width: column.width }} />
          ))}
        </colgroup>
        <thead>
          {props.groups}
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <Heading key={column.key} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {above > 0 && <tr aria-hidden style={{ height: above }} />}
          {items.map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            return (
              <tr
                key={rowKey(row)}
                aria-rowindex={item.index + 2}
                {...(props.onSelect && {
                  "aria-selected": rowKey(row) === selected,
                  "data-choosable": true,
                  onClick: () => props.onSelect?.(row),
                })}
              >
                {columns.map((column) => (
                  <td key={column.key} data-numeric={column.numeric || undefined}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <tr aria-hidden style={{ height: below }} />}
        </tbody>
      </table>
      {rows.length === 0 && <p className={classes.empty}>{props.empty}</p>}
    </div>
  );
}

function Heading<Row>({ column }: { column: Column<Row> }) {
  const { sort, title, numeric } = column;
  if (!sort) return <th data-numeric={numeric || undefined}>{title}</th>;
  const arrow = { ascending: " ↑", descending: " ↓", none: "" }[sort.direction];
  return (
    <th data-numeric={numeric || undefined} aria-sort={sort.direction}>
      <button type="button" className={classes.sort} onClick={sort.onSort}>
        {title}
        {arrow}
      </button>
    </th>
  );
}

/** A cell whose words choose the row, for those who use the keyboard. */
export function RowButton({ children, title }: { children: ReactNode; title: string }) {
  return (
    <button type="button" className={classes.choose} title={title}>
      {children}
    </button>
  );
}
