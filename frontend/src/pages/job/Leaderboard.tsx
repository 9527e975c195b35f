import { Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Fragment, useState } from "react";

import { resultsQuery } from "@/api/queries";
import type { BatchSummary, Job, Result } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { Panel } from "@/components/Panel";
import { type BatchComparison, compare } from "@/lib/comparison";
import { isSimulatedName } from "@/lib/deviceFacts";
import { isFinished } from "@/lib/jobStates";

import classes from "./Leaderboard.module.css";
import { ResultDetails } from "./ResultDetails";
import { PendingRow, ResultRow } from "./ResultRow";
import { Skipped } from "./Skipped";

const COLUMNS = 9;

/** All that competed, by place: how fast, and what became of each. */
export function Leaderboard({ job }: { job: Job }) {
  const query = useQuery(resultsQuery(job.id));
  const finished = isFinished(job.state);
  return (
    <Panel
      title="Leaderboard"
      note={
        isSimulatedName(job.spec.device)
          ? "simulated latency of one run"
          : "median latency of one run, with its 95 % interval"
      }
      flush
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
          summaries={job.summary ?? []}
          jobId={job.id}
          showPending={!finished}
        />
      )}
      <Skipped summaries={job.summary ?? []} />
    </Panel>
  );
}

interface ResultsTableProps {
  batches: BatchComparison[];
  summaries: readonly BatchSummary[];
  jobId: string;
  /** What is still to come has a row already. */
  showPending: boolean;
}

function ResultsTable({ batches, summaries, jobId, showPending }: ResultsTableProps) {
  const [chosen, setChosen] = useState<Result | null>(null);
  return (
    <div className={classes.scroll}>
      <Table
        data-testid="results-table"
        highlightOnHover
        horizontalSpacing="sm"
        className={classes.table}
      >
        <Table.Thead>
          <Table.Tr>
            <Table.Th aria-label="Place" />
            <Table.Th>Contender</Table.Th>
            <Table.Th ta="right">Latency</Table.Th>
            <Table.Th ta="right">To baseline</Table.Th>
            <Table.Th>What became of it</Table.Th>
            <Table.Th className={classes.optional}>Kernels</Table.Th>
            <Table.Th className={classes.optional}>Verified, max. error</Table.Th>
            <Table.Th className={classes.optional} ta="right">
              Search
            </Table.Th>
            <Table.Th aria-label="Schedule and details" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {batches.map(({ batchSize, rows, pending }) => (
            <Fragment key={batchSize}>
              {batches.length > 1 && <BatchRow batchSize={batchSize} />}
              {rows.map((row) => (
                <ResultRow
                  key={row.result.id}
                  row={row}
                  summary={summaries.find((summary) => summary.batch_size === batchSize)}
                  jobId={jobId}
                  onDetails={setChosen}
                />
              ))}
              {showPending && pending.map((name) => <PendingRow key={name} scheduler={name} />)}
            </Fragment>
          ))}
        </Table.Tbody>
      </Table>
      <ResultDetails jobId={jobId} result={chosen} onClose={() => setChosen(null)} />
    </div>
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
