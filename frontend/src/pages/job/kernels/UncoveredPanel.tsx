import { Table, Text } from "@mantine/core";

import type { Tuning } from "@/api/types";
import { Panel } from "@/components/Panel";
import { count } from "@/lib/format";
import { coveredWords } from "@/lib/tuning";

import classes from "./ProgramsPanel.module.css";

/** What of the model no tensor program computes, and why. */
export function UncoveredPanel({ tuning }: { tuning: Tuning }) {
  const { covered, uncovered } = tuning;
  return (
    <Panel
      title="Not covered"
      note={
        covered === null
          ? "operators that are not tuned"
          : `operators that are not tuned; the programs are ${coveredWords(covered)} of the FLOPs`
      }
      flush
    >
      <div className={classes.scroll}>
        <Table data-testid="tuning-uncovered">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Reason</Table.Th>
              <Table.Th ta="right">Operators</Table.Th>
              <Table.Th ta="right">GFLOP</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {uncovered.map(({ reason, operators, gflops }) => (
              <Table.Tr key={reason}>
                <Table.Td>
                  <Text size="sm">{reason}</Text>
                  <Text size="xs" c="dimmed" lineClamp={1} title={operators.join(", ")}>
                    {operators.join(", ")}
                  </Text>
                </Table.Td>
                <Table.Td ta="right">{count(operators.length)}</Table.Td>
                <Table.Td ta="right">{Number(gflops.toPrecision(3))}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
    </Panel>
  );
}
