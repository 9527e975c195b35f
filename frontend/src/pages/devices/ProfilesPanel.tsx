import { ActionIcon, Anchor, Code, Group, Table, Text, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { addresses, profilesQuery } from "@/api/queries";
import type { ProfileSummary } from "@/api/types";
import { Ago } from "@/components/Ago";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Panel } from "@/components/Panel";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { count } from "@/lib/format";
import { providerName } from "@/lib/providers";

import classes from "./DeviceTable.module.css";

/** What has been measured so far, so that no job measures it again, and where to take it from. */
export function ProfilesPanel() {
  const query = useQuery(profilesQuery);
  const summaries = query.data ?? [];
  if (query.isError && !query.data) {
    return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  }
  if (summaries.length === 0) return null;
  return (
    <Panel
      title="Profile index"
      note="every measurement taken, never shared between different devices"
      actions={
        <Anchor href={addresses.profiles()} download size="sm" data-testid="profiles-export">
          Export all
        </Anchor>
      }
      flush
    >
      <Table.ScrollContainer minWidth={680} type="native">
        <Table className={classes.table} data-testid="profiles-table" highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Device</Table.Th>
              <Table.Th>Kernels</Table.Th>
              <Table.Th ta="right">Measurements</Table.Th>
              <Table.Th ta="right">Failed</Table.Th>
              <Table.Th>Newest</Table.Th>
              <Table.Th aria-label="Export" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {summaries.map((summary) => (
              <SummaryRow key={`${summary.device_fingerprint} ${summary.provider}`} summary={summary} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Panel>
  );
}

function SummaryRow({ summary }: { summary: ProfileSummary }) {
  const { device_fingerprint: fingerprint, provider, devices } = summary;
  const name = devices.length > 0 ? devices.join(", ") : "a device that is not here";
  return (
    <Table.Tr>
      <Table.Td>
        <Group gap={6} wrap="nowrap">
          <Text size="sm" {...(devices.length > 0 ? { fw: 600 } : { c: "dimmed" })}>
            {name}
          </Text>
          <Code fz="xs">{fingerprint}</Code>
          {summary.simulated && <SimulatedBadge />}
        </Group>
      </Table.Td>
      <Table.Td>{providerName(provider)}</Table.Td>
      <Table.Td ta="right">{count(summary.entries)}</Table.Td>
      <Table.Td ta="right">{count(summary.failures)}</Table.Td>
      <Table.Td>
        <Ago at={summary.newest_at} />
      </Table.Td>
      <Table.Td ta="right">
        <Tooltip label="Export these measurements, one JSON object a line">
          <ActionIcon
            component="a"
            variant="subtle"
            color="gray"
            href={addresses.profiles(fingerprint, provider)}
            download
            aria-label={`Export the measurements of ${name} with kernels of ${providerName(provider)}`}
          >
            <IconDownload size={16} />
          </ActionIcon>
        </Tooltip>
      </Table.Td>
    </Table.Tr>
  );
}
