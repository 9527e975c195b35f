import { Group, Stack, Text } from "@mantine/core";

import type { Device } from "@/api/types";
import { DeviceFacts } from "@/components/DeviceFacts";
import { OnlineBadge } from "@/components/OnlineBadge";
import { Panel } from "@/components/Panel";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { AUTO } from "@/lib/auto";
import { isSimulated } from "@/lib/deviceFacts";
import { count, duration } from "@/lib/format";

import { ofModel, type Values } from "./values";

function schedulerCount({ schedulers }: Values): string {
  if (schedulers.includes(AUTO)) return "everything that applies";
  return `${schedulers.length} ${schedulers.length === 1 ? "scheduler" : "schedulers"}`;
}

function scheduleWords(values: Values): string {
  const batches = values.batchSizes.length;
  const longest = duration(batches * Number(values.budgetSeconds));
  const sizes = `${batches} ${batches === 1 ? "batch size" : "batch sizes"}`;
  return `${sizes}, ${schedulerCount(values)}: at most ${longest} of search, then verification.`;
}

function kernelWords(values: Values): string {
  const programs = values.workloads.length + values.programs.length;
  const what = ofModel(values)
    ? "all tensor programs of the model"
    : `${count(programs)} tensor ${programs === 1 ? "program" : "programs"}`;
  const longest = duration(Number(values.budgetSeconds));
  return `${count(Number(values.trials))} trials in all, for ${what}: at most ${longest} of tuning, then the best are measured again in isolation.`;
}

/** What the chosen device is, and how long the job may search on it. */
export function DevicePanel({ device, values }: { device: Device; values: Values }) {
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
          {values.purpose === "kernels" ? kernelWords(values) : scheduleWords(values)}
        </Text>
      </Stack>
    </Panel>
  );
}
