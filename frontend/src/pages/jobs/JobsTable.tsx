import { Table } from "@mantine/core";

import type { Job } from "@/api/types";

import { JobRow } from "./JobRow";
import classes from "./JobsTable.module.css";

/**
 * Columns have fixed widths, so that nothing moves while their content changes. A narrow screen
 * shows the job, its state and its gain; the rest is on the job's page.
 */
export function JobsTable({ jobs }: { jobs: readonly Job[] }) {
  return (
    <Table highlightOnHover className={classes.table}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Job</Table.Th>
          <Table.Th w="9%" visibleFrom="md">
            Device
          </Table.Th>
          <Table.Th w={140} visibleFrom="sm">
            State
          </Table.Th>
          <Table.Th w="25%" visibleFrom="sm">
            Progress
          </Table.Th>
          <Table.Th w={96} ta="right">
            Best
          </Table.Th>
          <Table.Th w={120} ta="right" visibleFrom="md">
            Duration
          </Table.Th>
          <Table.Th w={120} visibleFrom="md">
            Created
          </Table.Th>
          <Table.Th w={120} aria-label="Actions" visibleFrom="sm" />
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {jobs.map((job) => (
          <JobRow key={job.id} job={job} />
        ))}
      </Table.Tbody>
    </Table>
  );
}
