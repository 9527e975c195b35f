import { ActionIcon, Button, Group, Table, Text, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { addresses, tuningKernelsQuery } from "@/api/queries";
import type { Job, Tuning, TuningKernel, TuningProgram } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Panel } from "@/components/Panel";
import { bytes, count, milliseconds } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";
import { throughput } from "@/lib/tuning";

import { KernelDrawer } from "./KernelDrawer";
import classes from "./ProgramsPanel.module.css";

interface ProgramsPanelProps {
  job: Job;
  tuning: Tuning;
}

/** The tensor programs: how fast the best candidate of each is, and its kernel once it is chosen. */
export function ProgramsPanel({ job, tuning }: ProgramsPanelProps) {
  const query = useQuery(tuningKernelsQuery(job.id));
  const [chosen, setChosen] = useState<string | null>(null);
  const kernels = new Map(query.data?.map((kernel) => [kernel.program, kernel]));
  const program = tuning.programs.find((each) => each.program === chosen) ?? null;
  const kernel = chosen === null ? undefined : kernels.get(chosen);
  return (
    <Panel title="Programs and kernels" note="median latency of one run" flush grow>
      {query.isError && !query.data && (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      )}
      {tuning.programs.length === 0 ? (
        <Text size="sm" c="dimmed" px="md" pb="md">
          {isFinished(job.state)
            ? "The job ended before it knew its tensor programs."
            : "The tensor programs are listed once the worker has taken the job."}
        </Text>
      ) : (
        <div className={classes.scroll} tabIndex={0} role="group" aria-label="Programs and kernels">
          <Table
            className={classes.table}
            highlightOnHover
            data-testid="tuning-programs"
          >
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Program</Table.Th>
                <Table.Th ta="right" className={classes.optional}>
                  GFLOP
                </Table.Th>
                <Table.Th ta="right" className={classes.optional}>
                  Trials
                </Table.Th>
                <Table.Th ta="right" className={classes.optional}>
                  Best told
                </Table.Th>
                <Table.Th ta="right">Kernel, alone</Table.Th>
                <Table.Th ta="right">GFLOP/s</Table.Th>
                <Table.Th aria-label="Code and download" />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {tuning.programs.map((each) => (
                <ProgramRow
                  key={each.program}
                  jobId={job.id}
                  program={each}
                  kernel={kernels.get(each.program)}
                  finished={isFinished(job.state)}
                  onOpen={() => setChosen(each.program)}
                />
              ))}
            </Table.Tbody>
          </Table>
        </div>
      )}
      <KernelDrawer
        jobId={job.id}
        program={program}
        kernel={kernel}
        target={tuning.target}
        onClose={() => setChosen(null)}
      />
    </Panel>
  );
}

interface ProgramRowProps {
  jobId: string;
  program: TuningProgram;
  /** Undefined until it is chosen. */
  kernel: TuningKernel | undefined;
  finished: boolean;
  onOpen: () => void;
}

function ProgramRow({ jobId, program, kernel, finished, onOpen }: ProgramRowProps) {
  const { name, weight, gflops, trials, best_ms: best } = program;
  const latency = kernel?.latency_ms ?? best;
  return (
    <Table.Tr className={classes.row} data-testid="tuning-program" data-program={name}>
      <Table.Td className={classes.name}>
        <Text size="sm" fw={550}>
          {name}
        </Text>
        {weight !== 1 && (
          <Text size="xs" c="dimmed" title={program.units.map(({ unit }) => unit).join(", ")}>
            weight {count(weight)}
          </Text>
        )}
      </Table.Td>
      <Table.Td ta="right" className={classes.optional}>
        {Number(gflops.toPrecision(3))}
      </Table.Td>
      <Table.Td ta="right" className={classes.optional}>
        {count(trials)}
      </Table.Td>
      <Table.Td ta="right" className={classes.optional}>
        {best === null ? <Dimmed>{trials > 0 ? "all failed" : "–"}</Dimmed> : milliseconds(best)}
      </Table.Td>
      <Table.Td fw={600} className={classes.latency}>
        {kernel && milliseconds(kernel.latency_ms)}
        {!kernel && (
          <>
            <span className={classes.wide}>
              <Dimmed>{finished ? "none" : "not yet"}</Dimmed>
            </span>
            <span className={classes.narrow}>
              <Dimmed>{best === null ? "no latency yet" : `told ${milliseconds(best)}`}</Dimmed>
            </span>
          </>
        )}
      </Table.Td>
      <Table.Td className={classes.throughput} {...(kernel ? {} : { c: "dimmed" })}>
        {latency === null ? "–" : throughput(gflops, latency)}
        <span className={classes.narrow}> GFLOP/s</span>
      </Table.Td>
      <Table.Td className={classes.actions}>
        {kernel && (
          <Group gap={6} justify="flex-end" wrap="nowrap">
            <Button
              size="compact-xs"
              variant="default"
              onClick={onOpen}
              aria-label={`TIR and source of ${name}`}
              data-testid="tuning-kernel-open"
            >
              Code
            </Button>
            <Tooltip label={`A zip with the kernel and how to run it, ${bytes(kernel.size_bytes)}`}>
              <ActionIcon
                component="a"
                variant="light"
                size="sm"
                href={addresses.kernel(jobId, kernel.candidate)}
                download={kernel.filename}
                aria-label={`Download the kernel of ${name}`}
                data-testid="tuning-kernel-download"
              >
                <IconDownload size={14} />
              </ActionIcon>
            </Tooltip>
          </Group>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

function Dimmed({ children }: { children: string }) {
  return (
    <Text size="sm" c="dimmed" span fw={400}>
      {children}
    </Text>
  );
}
