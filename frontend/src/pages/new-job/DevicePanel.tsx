import { Group, Stack, Text } from "@mantine/core";

import type { Device } from "@/api/types";
import { DeviceFacts } from "@/components/DeviceFacts";
import { OnlineBadge } from "@/components/OnlineBadge";
import { Panel } from "@/components/Panel";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { AUTO } from "@/lib/auto";
import { isSimulated } from "@/lib/deviceFacts";
import { duration } from "@/lib/format";

import type { Values } from "./values";

function schedulerCount({ schedulers }: Values): string {
  if (schedulers.includes(AUTO)) return "everything that applies";
  return `${schedulers.length} ${schedulers.length === 1 ? "scheduler" : "schedulers"}`;
}

/** What the chosen device is, and how long the job may search on it. */
export function DevicePanel({ device, values }: { device: Device; values: Values }) {
  const batches = values.batchSizes.length;
  const longest = batches * Number(values.budgetSeconds);
  return (
    <Panel
      title={device.name}
      actions={
        <Group gap={6}>
          {isSimulated(device) && <SimulatedBadge />}
          <OnlineBadge online={device.online} />
        </Group>
      }
    >
      <Stack gap="sm">
        <Text size="sm">{device.description}</Text>
        <DeviceFacts facts={device.facts} />
        <Text size="sm" c="dimmed">
          {batches} {batches === 1 ? "batch size" : "batch sizes"}, {schedulerCount(values)}: at most{" "}
          {duration(longest)} of search, then verification.
        </Text>
      </Stack>
    </Panel>
  );
}
