import { ActionIcon, Badge, Group, Table, Text, Tooltip } from "@mantine/core";
import { IconCircleCheck, IconCircleX, IconDownload, IconInfoCircle } from "@tabler/icons-react";

import { addresses } from "@/api/queries";
import type { BatchSummary, Result } from "@/api/types";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { AUTO } from "@/lib/auto";
import type { Compared } from "@/lib/comparison";
import { noiseComplaint } from "@/lib/conditions";
import { type Fate, fateOf, isAlternative } from "@/lib/fates";
import { absoluteError, interval, milliseconds, schedulerName, times } from "@/lib/format";
import { providerName } from "@/lib/providers";
import { searchSeconds, searchWords, withoutBarriers } from "@/lib/searchFacts";

import classes from "./Leaderboard.module.css";

interface ResultRowProps {
  row: Compared;
  /** Of the row's batch size, once there is one. */
  summary: BatchSummary | undefined;
  jobId: string;
  onDetails: (result: Result) => void;
}

export function ResultRow({ row, summary, jobId, onDetails }: ResultRowProps) {
  const { result } = row;
  const fate = fateOf(result, summary);
  const weight = fate.rank === "best" ? 600 : 400;
  return (
    <Table.Tr
      className={classes.row}
      data-testid="result-row"
      data-scheduler={result.scheduler}
      data-batch={result.batch_size}
      data-kind={result.kind}
      data-rank={fate.rank}
    >
      <Table.Td className={classes.place}>{result.place}</Table.Td>
      <Table.Td className={classes.who}>
        <Group gap={6}>
          <Text size="sm" fw={weight}>
            {schedulerName(result.scheduler)}
          </Text>
          {isAlternative(result) && <AlternativeBadge />}
          {result.simulated && <SimulatedBadge />}
          <NoiseBadge complaint={noiseComplaint(result.environment)} />
        </Group>
        {withoutBarriers(result.search) && <WithoutBarriers />}
      </Table.Td>
      <Table.Td className={classes.latency}>
        <Text size="sm" fw={weight}>
          {milliseconds(result.latency_ms)}
        </Text>
        <Tooltip label={`95 % interval, of ${result.samples} runs`}>
          <span className={classes.interval}>
            {result.low_ms === result.high_ms ? "exact" : interval(result.low_ms, result.high_ms)}
          </span>
        </Tooltip>
      </Table.Td>
      <Table.Td className={classes.speedup}>
        <ToBaseline row={row} />
      </Table.Td>
      <Table.Td className={classes.fate}>
        <FateWords fate={fate} />
      </Table.Td>
      <Table.Td className={`${classes.more} ${classes.optional}`}>{kernels(result)}</Table.Td>
      <Table.Td className={`${classes.more} ${classes.optional}`}>
        <Verified result={result} />
      </Table.Td>
      <Table.Td className={`${classes.more} ${classes.optional}`} ta="right">
        <Search search={result.search} />
      </Table.Td>
      <Table.Td className={classes.actions}>
        <Group gap={2} justify="flex-end" wrap="nowrap">
          {!isAlternative(result) && <ScheduleLink result={result} jobId={jobId} />}
          <DetailsButton result={result} onDetails={onDetails} />
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}

/** Who implements the operators; of an alternative nobody can choose it. */
const kernels = (result: Result) =>
  isAlternative(result) ? "its own" : providerName(result.provider);

/** A result that has yet to come. */
export function PendingRow({ scheduler }: { scheduler: string }) {
  return (
    <Table.Tr className={classes.row} c="dimmed" data-testid="result-pending">
      <Table.Td className={classes.place} />
      <Table.Td className={classes.who}>
        {scheduler === AUTO ? "All that auto tries" : schedulerName(scheduler)}
      </Table.Td>
      <Table.Td className={classes.latency}>to come</Table.Td>
      <Table.Td className={classes.more} colSpan={6} />
    </Table.Tr>
  );
}

/** Beside what is no schedule of Plait's, but what the user could run the model with anyway. */
function AlternativeBadge() {
  return (
    <Tooltip label="Not a schedule: what you can run the model with already" multiline maw={300}>
      <Badge
        color="orange"
        variant="outline"
        size="sm"
        tt="none"
        maw="none"
        flex="none"
        data-testid="alternative-badge"
      >
        alternative
      </Badge>
    </Tooltip>
  );
}

function FateWords({ fate }: { fate: Fate }) {
  const emphasis = { best: { c: "green", fw: 600 }, tied: { fw: 600 }, other: {} }[fate.rank];
  return (
    <>
      <Text size="sm" {...emphasis}>
        {sentence(fate.words)}
      </Text>
      {fate.reason && (
        <Text size="xs" c="dimmed">
          {sentence(fate.reason)}
        </Text>
      )}
    </>
  );
}

const sentence = (words: string) => words.charAt(0).toUpperCase() + words.slice(1);

/** Below the scheduler of stages that were quicker once they no longer waited for each other. */
function WithoutBarriers() {
  return (
    <Tooltip
      label="The stages run without barriers between them: a unit waits only for what it reads"
      position="bottom"
      multiline
      maw={340}
    >
      <Text fz={11} lh="13px" c="dimmed" w="max-content" data-testid="without-barriers">
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
  if (verdict === null) return <Text size="sm">{times(ratio)}</Text>;
  const exact = verdict.low === verdict.high;
  return (
    <Tooltip label="As fast as the baseline, with its 95 % interval, measured in turns">
      <div>
        <Text size="sm" {...(verdict.differs ? {} : { c: "dimmed" })}>
          {times(ratio)}
        </Text>
        <span className={classes.interval}>
          {verdict.differs || exact ? "" : "no difference, "}
          {exact ? "exact" : `${times(verdict.low)} to ${times(verdict.high)}`}
        </span>
      </div>
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
