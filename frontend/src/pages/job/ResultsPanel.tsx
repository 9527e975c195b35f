import { Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";

import { resultsQuery } from "@/api/queries";
import type { Job, Result } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { Panel } from "@/components/Panel";
import { type BatchComparison, compare } from "@/lib/comparison";
import { isSimulatedName } from "@/lib/deviceFacts";
import { isFinished } from "@/lib/jobStates";

import { ResultDetails } from "./ResultDetails";
import { PendingRow, ResultRow } from "./ResultRow";
import classes from "./ResultsPanel.module.css";

const COLUMNS = 8;

export function ResultsPanel({ job }: { job: Job }) {
  const query = useQuery(resultsQuery(job.id));
  const finished = isFinished(job.state);
  return (
    <Panel
      title="Results"
      note={
        isSimulatedName(job.spec.device)
          ? "simulated latency of one run"
          : "median latency of one run"
      }
      flush
      grow
    >
      {query.isPending && <Loading label="Loading the results" />}
      {query.isError && !query.data && (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data && finished && query.data.length === 0 && (
        <EmptyState title="No result">
          The job ended before a schedule was measured and verified.
        </EmptyState>
      )}
      {query.data && !(finished && query.data.length === 0) && (
        <ResultsTable
          batches={compare(job.spec, query.data)}
          jobId={job.id}
          showPending={!finished}
        />
      )}
    </Panel>
  );
}

interface ResultsTableProps {
  batches: BatchComparison[];
  jobId: string;
  /** What is still to come has a row already, so that nothing moves when it comes. */
  showPending: boolean;
}

function ResultsTable({ batches, jobId, showPending }: ResultsTableProps) {
  const [chosen, setChosen] = useState<Result | null>(null);
  return (
    <Table.ScrollContainer minWidth={840} type="native">
      <Table
        data-testid="results-table"
        highlightOnHover
        horizontalSpacing="sm"
        className={classes.table}
      >
        <Table.Thead>
          <Table.Tr>
            <Table.Th miw={190}>Scheduler</Table.Th>
            <Table.Th ta="right">Latency</Table.Th>
            <Table.Th ta="right">95 % interval</Table.Th>
            <Table.Th ta="right">To baseline</Table.Th>
            <Table.Th>Verified, max. error</Table.Th>
            <Table.Th ta="right">Search</Table.Th>
            <Table.Th>Kernels</Table.Th>
            <Table.Th aria-label="Schedule and details" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {batches.map(({ batchSize, rows, pending }) => (
            <Fragment key={batchSize}>
              {batches.length > 1 && <BatchRow batchSize={batchSize} />}
              {rows.map((row) => (
                <ResultRow key={row.result.id} row={row} jobId={jobId} onDetails={setChosen} />
              ))}
              {showPending && pending.map((name) => <PendingRow key={name} scheduler={name} />)}
            </Fragment>
          ))}
        </Table.Tbody>
      </Table>
      <ResultDetails jobId={jobId} result={chosen} onClose={() => setChosen(null)} />
    </Table.ScrollContainer>
  );
}

function BatchRow({ batchSize }: { batchSize: number }) {
  return (
    <Table.Tr>
      <Table.Td colSpan={COLUMNS} className={classes.batch}>
        <Text size="xs" fw={600} c="dimmed">
          Batch {batchSize}
        </Text>
      </Table.Td>
    </Table.Tr>
  );
}
