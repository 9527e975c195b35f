import { ActionIcon, Badge, Group, Table, Text, Tooltip } from "@mantine/core";
import { IconCircleCheck, IconCircleX, IconDownload } from "@tabler/icons-react";

import { addresses } from "@/api/queries";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import type { Compared } from "@/lib/comparison";
import { absoluteError, milliseconds, schedulerName, times } from "@/lib/format";

export function ResultRow({ row: { result, ratio }, jobId }: { row: Compared; jobId: string }) {
  return (
    <Table.Tr data-testid="result-row" data-scheduler={result.scheduler}>
      <Table.Td>
        <Group gap={6} wrap="nowrap">
          <Text size="sm" fw={result.winner ? 600 : 400}>
            {schedulerName(result.scheduler)}
          </Text>
          {result.winner && (
            <Badge size="sm" tt="none">
              chosen
            </Badge>
          )}
          {result.simulated && <SimulatedBadge />}
        </Group>
      </Table.Td>
      <Table.Td ta="right" fw={result.winner ? 600 : 400}>
        {milliseconds(result.latency_ms)}
      </Table.Td>
      <Table.Td ta="right" c="dimmed">
        <Tooltip label={`of ${result.samples} runs`}>
          <span>
            {milliseconds(result.low_ms).replace(" ms", "")} to {milliseconds(result.high_ms)}
          </span>
        </Tooltip>
      </Table.Td>
      <Table.Td ta="right">{ratio === null ? "" : times(ratio)}</Table.Td>
      <Table.Td>
        <Verified verified={result.verified} />
      </Table.Td>
      <Table.Td ta="right" c="dimmed">
        {absoluteError(result.max_abs_error)}
      </Table.Td>
      <Table.Td ta="right">
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
      </Table.Td>
    </Table.Tr>
  );
}

function Verified({ verified }: { verified: boolean }) {
  const Icon = verified ? IconCircleCheck : IconCircleX;
  const colour = verified ? "green" : "red";
  return (
    <Group gap={4} wrap="nowrap">
      <Icon size={16} color={`var(--mantine-color-${colour}-text)`} aria-hidden />
      <Text size="sm" c={verified ? "dimmed" : "red"}>
        {verified ? "yes" : "no"}
      </Text>
    </Group>
  );
}
