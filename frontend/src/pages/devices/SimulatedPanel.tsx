import { Table, Text } from "@mantine/core";

import type { Device } from "@/api/types";
import { OnlineBadge } from "@/components/OnlineBadge";
import { Panel } from "@/components/Panel";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { gpuOf, gpuSummary } from "@/lib/deviceFacts";
import { bytes } from "@/lib/format";

import classes from "./DeviceTable.module.css";

/** The simulated GPUs side by side: what distinguishes them is their numbers. */
export function SimulatedPanel({ devices }: { devices: readonly Device[] }) {
  return (
    <Panel
      title="Simulated GPUs"
      note="for GPUs that are not at hand: their figures are computed, not measured"
      actions={<SimulatedBadge />}
      flush
    >
      <Table.ScrollContainer minWidth={820} type="native">
        <Table className={classes.table} data-testid="simulated-devices" highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Device</Table.Th>
              <Table.Th ta="right">SMs</Table.Th>
              <Table.Th ta="right">Clock</Table.Th>
              <Table.Th ta="right">FP32</Table.Th>
              <Table.Th ta="right">Bandwidth</Table.Th>
              <Table.Th ta="right">Memory</Table.Th>
              <Table.Th ta="right">L2 cache</Table.Th>
              <Table.Th ta="right">Capability</Table.Th>
              <Table.Th>Worker</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {devices.map((device) => (
              <DeviceRow key={device.name} device={device} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Panel>
  );
}

function DeviceRow({ device }: { device: Device }) {
  const facts = gpuOf(device.facts) ?? {};
  const gpu = gpuSummary(facts);
  const memory = device.facts["memory_bytes"];
  return (
    <Table.Tr data-testid="simulated-device">
      <Table.Td className={classes.device}>
        <Text size="sm" fw={600}>
          {device.name}
        </Text>
        <Text size="xs" c="dimmed">
          {typeof facts["name"] === "string" ? facts["name"] : device.description}
        </Text>
      </Table.Td>
      <Table.Td ta="right">{gpu.sms}</Table.Td>
      <Table.Td ta="right">{gpu.clock}</Table.Td>
      <Table.Td ta="right">{gpu.fp32}</Table.Td>
      <Table.Td ta="right">{gpu.bandwidth}</Table.Td>
      <Table.Td ta="right">{typeof memory === "number" ? bytes(memory) : ""}</Table.Td>
      <Table.Td ta="right">{gpu.l2}</Table.Td>
      <Table.Td ta="right">{gpu.capability}</Table.Td>
      <Table.Td>
        <OnlineBadge online={device.online} />
      </Table.Td>
    </Table.Tr>
  );
}
