import { Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";

import { resultsQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { Panel } from "@/components/Panel";
import { type BatchComparison, compare } from "@/lib/comparison";
import { isFinished } from "@/lib/jobStates";

import { ResultRow } from "./ResultRow";

const COLUMNS = 7;

export function ResultsPanel({ job }: { job: Job }) {
  const query = useQuery(resultsQuery(job.id));
  const batches = compare(query.data ?? []);
  return (
    <Panel title="Results" note="median latency of one run" flush>
      {query.isPending && <Loading label="Loading the results" />}
      {query.isError && !query.data && (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data?.length === 0 && (
        <EmptyState title="No result yet">
          {isFinished(job.state)
            ? "The job ended before a schedule was measured and verified."
            : "A row appears here as soon as a schedule has been measured and verified."}
        </EmptyState>
      )}
      {batches.length > 0 && <ResultsTable batches={batches} jobId={job.id} />}
    </Panel>
  );
}

function ResultsTable({ batches, jobId }: { batches: BatchComparison[]; jobId: string }) {
  return (
    <Table.ScrollContainer minWidth={760} type="native">
      <Table data-testid="results-table" highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Scheduler</Table.Th>
            <Table.Th ta="right">Latency</Table.Th>
            <Table.Th ta="right">95 % interval</Table.Th>
            <Table.Th ta="right">To baseline</Table.Th>
            <Table.Th>Verified</Table.Th>
            <Table.Th ta="right">Max. abs. error</Table.Th>
            <Table.Th ta="right">Schedule</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {batches.map(({ batchSize, rows }) => (
            <Fragment key={batchSize}>
              {batches.length > 1 && (
                <Table.Tr>
                  <Table.Td colSpan={COLUMNS} bg="var(--mantine-color-default-hover)" py={3}>
                    <Text size="xs" fw={600} c="dimmed">
                      Batch {batchSize}
                    </Text>
                  </Table.Td>
                </Table.Tr>
              )}
              {rows.map((row) => (
                <ResultRow key={row.result.id} row={row} jobId={jobId} />
              ))}
            </Fragment>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
