import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { tuningRoundsQuery } from "@/api/queries";
import type { Job, Tuning, TuningRound } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { Panel } from "@/components/Panel";
import { type Column, VirtualTable } from "@/components/VirtualTable";
import { count, milliseconds, percent } from "@/lib/format";
import {
  boundWords,
  deviationWords,
  failureCount,
  failureWords,
  newestFirst,
  reactWords,
} from "@/lib/tuning";

interface RoundsPanelProps {
  job: Job;
  tuning: Tuning;
}

/** The history of the degree of parallelism, the newest round first. */
export function RoundsPanel({ job, tuning }: RoundsPanelProps) {
  const query = useQuery(tuningRoundsQuery(job.id));
  const rounds = query.data;
  const rows = useMemo(() => newestFirst(rounds ?? []), [rounds]);
  const columns = useMemo(() => columnsFor(tuning), [tuning]);
  return (
    <Panel title="Rounds" note="the newest first; latencies as the tuner is told" flush>
      {query.isPending && <Loading label="Loading the rounds" />}
      {query.isError && !rounds && (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      )}
      {rounds && (
        <VirtualTable<TuningRound>
          label="Rounds"
          columns={columns}
          rows={rows}
          rowKey={(round) => round.number}
          empty="No round has been measured"
          testId="tuning-rounds"
        />
      )}
    </Panel>
  );
}

function columnsFor(tuning: Tuning): readonly Column<TuningRound>[] {
  const names = new Map(tuning.programs.map(({ program, name }) => [program, name]));
  const nameOf = (key: string) => names.get(key) ?? key;
  return [
    { key: "number", title: "Round", width: 72, cell: ({ number }) => count(number) },
    {
      key: "program",
      title: "Program",
      width: 184,
      cell: ({ program }) => <span title={nameOf(program)}>{nameOf(program)}</span>,
    },
    {
      key: "degree",
      title: <span title="Degree of parallelism: candidates in flight at once">d_p</span>,
      width: 58,
      numeric: true,
      cell: ({ degree_of_parallelism: degree }) => (degree > 0 ? count(degree) : "–"),
    },
    {
      key: "react",
      title: <span title="How REACT changed the degree of parallelism, and why">REACT</span>,
      width: 166,
      cell: ({ react }) => <span title={reactWords(react)}>{reactWords(react)}</span>,
    },
    {
      key: "bounds",
      title: (
        <span title="Between which degrees of parallelism the one after the next full round will be">
          Bounds
        </span>
      ),
      width: 82,
      cell: boundWords,
    },
    {
      key: "delta",
      title: <span title="Mean deviation of what was measured again in isolation">δ mean</span>,
      width: 78,
      numeric: true,
      cell: ({ delta_mean: delta }) => deviationWords(delta),
    },
    {
      key: "successes",
      title: "Measured",
      width: 94,
      numeric: true,
      cell: ({ successes }) => count(successes),
    },
    {
      key: "outliers",
      title: "Outliers",
      width: 80,
      numeric: true,
      cell: ({ outliers }) => count(outliers),
    },
    {
      key: "remeasured",
      title: "Re-measured",
      width: 112,
      numeric: true,
      cell: ({ remeasured }) => count(remeasured),
    },
    {
      key: "failures",
      title: "Failed",
      width: 152,
      cell: ({ failures }) =>
        failureCount(failures) > 0 && (
          <span title={failureWords(failures)}>{failureWords(failures)}</span>
        ),
    },
    {
      key: "timeout",
      title: "Timeout",
      width: 80,
      numeric: true,
      cell: ({ timeout_s: seconds }) => (seconds > 0 ? `${Number(seconds.toPrecision(3))} s` : ""),
    },
    {
      key: "best",
      title: <span title="The program's best latency so far">Best</span>,
      width: 104,
      numeric: true,
      cell: ({ best_ms: best }) => best !== null && milliseconds(best),
    },
    {
      key: "cpu",
      title: <span title="Of the worker's cores, by anybody">CPU</span>,
      width: 64,
      numeric: true,
      cell: ({ cpu_share: share }) => share !== null && percent(share),
    },
    {
      key: "took",
      title: "Took",
      width: 72,
      numeric: true,
      cell: ({ started_s: from, ended_s: to }) => `${(to - from).toFixed(1)} s`,
    },
  ];
}
