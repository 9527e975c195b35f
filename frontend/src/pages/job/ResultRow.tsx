import { ActionIcon, Badge, Group, Table, Text, Tooltip } from "@mantine/core";
import { IconCircleCheck, IconCircleX, IconDownload, IconInfoCircle } from "@tabler/icons-react";

import { addresses } from "@/api/queries";
import type { Result } from "@/api/types";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import type { Compared } from "@/lib/comparison";
import { noiseComplaint } from "@/lib/conditions";
import { absoluteError, interval, milliseconds, schedulerName, times } from "@/lib/format";
import { providerName } from "@/lib/providers";
import { searchSeconds, searchWords, withoutBarriers } from "@/lib/searchFacts";

import classes from "./ResultsPanel.module.css";

interface ResultRowProps {
  row: Compared;
  jobId: string;
  onDetails: (result: Result) => void;
}

export function ResultRow({ row, jobId, onDetails }: ResultRowProps) {
  const { result } = row;
  const weight = result.winner ? 600 : 400;
  return (
    <Table.Tr
      className={classes.row}
      data-testid="result-row"
      data-scheduler={result.scheduler}
      data-batch={result.batch_size}
    >
      <Table.Td>
        <Group gap={6} wrap="nowrap" w="max-content">
          <Text size="sm" fw={weight}>
            {schedulerName(result.scheduler)}
          </Text>
          {result.winner && (
            <Badge size="sm" tt="none" maw="none" flex="none">
              chosen
            </Badge>
          )}
          {result.simulated && <SimulatedBadge />}
          <NoiseBadge complaint={noiseComplaint(result.environment)} />
        </Group>
        {withoutBarriers(result.search) && <WithoutBarriers />}
      </Table.Td>
      <Table.Td ta="right" fw={weight}>
        {milliseconds(result.latency_ms)}
      </Table.Td>
      <Table.Td ta="right" c="dimmed">
        <Tooltip label={`of ${result.samples} runs`}>
          <span>
            {result.low_ms === result.high_ms ? "exact" : interval(result.low_ms, result.high_ms)}
          </span>
        </Tooltip>
      </Table.Td>
      <Table.Td ta="right">
        <ToBaseline row={row} />
      </Table.Td>
      <Table.Td>
        <Verified result={result} />
      </Table.Td>
      <Table.Td ta="right" c="dimmed">
        <Search search={result.search} />
      </Table.Td>
      <Table.Td c="dimmed">{providerName(result.provider)}</Table.Td>
      <Table.Td>
        <Group gap={2} justify="flex-end" wrap="nowrap">
          <ScheduleLink result={result} jobId={jobId} />
          <DetailsButton result={result} onDetails={onDetails} />
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

/** A result that has yet to come. */
export function PendingRow({ scheduler }: { scheduler: string }) {
  return (
    <Table.Tr className={classes.row} c="dimmed" data-testid="result-pending">
      <Table.Td>{schedulerName(scheduler)}</Table.Td>
      <Table.Td ta="right">to come</Table.Td>
      <Table.Td colSpan={6} />
    </Table.Tr>
  );
}

/** Below the scheduler of stages that were quicker once they no longer waited for each other, within
 * the height that a row has without it. */
function WithoutBarriers() {
  return (
    <Tooltip
      label="The stages run without barriers between them: a unit waits only for what it reads"
      position="bottom"
      multiline
      maw={340}
    >
      <Text
        fz={11}
        lh="11px"
        c="dimmed"
        w="max-content"
        mt={-3}
        mb={-1}
        data-testid="without-barriers"
      >
        without barriers
      </Text>
    </Tooltip>
  );
}

/** Beside a figure that the job's owner had measured although other work went on. */
function NoiseBadge({ complaint }: { complaint: string | null }) {
  if (complaint === null) return null;
  return (
    <Tooltip label={`Measured although the machine was busy: ${complaint}`} multiline maw={340}>
      <Badge color="orange" size="sm" tt="none" maw="none" flex="none" data-testid="noise-badge">
        busy machine
      </Badge>
    </Tooltip>
  );
}

function ToBaseline({ row: { ratio, verdict } }: { row: Compared }) {
  if (ratio === null) return null;
  if (verdict === null) return times(ratio);
  const range = `${times(verdict.low)} to ${times(verdict.high)}`;
  return (
    <Tooltip label={`${times(ratio)} as fast, 95 % interval ${range}, measured in turns`}>
      {verdict.differs ? (
        <span>{times(ratio)}</span>
      ) : (
        <Text span size="sm" c="dimmed">
          no difference
        </Text>
      )}
    </Tooltip>
  );
}

function Verified({ result: { verified, max_abs_error } }: { result: Result }) {
  const Icon = verified ? IconCircleCheck : IconCircleX;
  const colour = verified ? "green" : "red";
  return (
    <Tooltip label="The largest difference from what the original model gives">
      <Group gap={4} wrap="nowrap" w="max-content">
        <Icon size={16} color={`var(--mantine-color-${colour}-text)`} aria-hidden />
        <Text size="sm" c={verified ? "dimmed" : "red"}>
          {verified ? "yes" : "no"}, {absoluteError(max_abs_error)}
        </Text>
      </Group>
    </Tooltip>
  );
}

function Search({ search }: { search: Result["search"] }) {
  const words = searchWords(search);
  const seconds = searchSeconds(search);
  if (words === "") return seconds;
  return (
    <Tooltip label={words}>
      <span>{seconds}</span>
    </Tooltip>
  );
}

function ScheduleLink({ result, jobId }: { result: Result; jobId: string }) {
  return (
    <Tooltip label="Download the schedule as JSON">
      <ActionIcon
        component="a"
        variant="subtle"
        color="gray"
        href={addresses.schedule(jobId, result.id)}
        download={`${result.scheduler}-batch${result.batch_size}.json`}
        aria-label={`Download the ${result.scheduler} schedule for batch ${result.batch_size}`}
      >
        <IconDownload size={16} />
      </ActionIcon>
    </Tooltip>
  );
}

function DetailsButton({ result, onDetails }: Pick<ResultRowProps, "onDetails"> & { result: Result }) {
  return (
    <Tooltip label="Conditions of the measurement and other details">
      <ActionIcon
        variant="subtle"
        color="gray"
        onClick={() => onDetails(result)}
        aria-label={`Details of ${result.scheduler}, batch ${result.batch_size}`}
        data-testid="result-details-open"
      >
        <IconInfoCircle size={16} />
      </ActionIcon>
    </Tooltip>
  );
}
