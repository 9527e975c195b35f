import { Table } from "@mantine/core";

import type { Job } from "@/api/types";

import { JobRow } from "./JobRow";
import classes from "./JobsTable.module.css";

/** Columns have fixed widths where their content changes live, so that nothing moves. */
export function JobsTable({ jobs }: { jobs: readonly Job[] }) {
  return (
    <Table.ScrollContainer minWidth={860} type="native">
      <Table highlightOnHover className={classes.table}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Job</Table.Th>
            <Table.Th w={110}>Device</Table.Th>
            <Table.Th w={104}>State</Table.Th>
            <Table.Th w="24%">Progress</Table.Th>
            <Table.Th w={104} ta="right">
              Best
            </Table.Th>
            <Table.Th w={112} ta="right">
              Duration
            </Table.Th>
            <Table.Th w={104}>Created</Table.Th>
            <Table.Th w={92} aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {jobs.map((job) => (
            <JobRow key={job.id} job={job} />
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
