import { Button, CopyButton, Drawer, Group, Stack, Table, Tabs, Text } from "@mantine/core";
import { IconCopy, IconDownload } from "@tabler/icons-react";

import { addresses } from "@/api/queries";
import type { Tuning, TuningKernel, TuningProgram } from "@/api/types";
import { Facts } from "@/components/Facts";
import { bytes, count, milliseconds, shortId } from "@/lib/format";
import { failureWord, throughput } from "@/lib/tuning";

import classes from "./KernelDrawer.module.css";

interface KernelDrawerProps {
  jobId: string;
  /** Null while none is chosen. */
  program: TuningProgram | null;
  kernel: TuningKernel | undefined;
  target: Tuning["target"];
  onClose: () => void;
}

/** A kernel: its figures, its schedule in TVM's script, and the code generated from it. */
export function KernelDrawer({ jobId, program, kernel, target, onClose }: KernelDrawerProps) {
  return (
    <Drawer
      opened={program !== null && kernel !== undefined}
      onClose={onClose}
      position="right"
      size="min(920px, 100vw)"
      title={<Text fw={600}>Kernel of {program?.name}</Text>}
    >
      {program && kernel && (
        <Stack gap="md" data-testid="tuning-kernel">
          <Facts
            facts={[
              ["Latency", `${milliseconds(kernel.latency_ms)} in isolation, by the device's clock`],
              ["Wall clock", milliseconds(kernel.wall_ms)],
              ["Throughput", `${throughput(program.gflops, kernel.latency_ms)} GFLOP/s`],
              ["Trial", count(kernel.trial)],
              ["Occurs in", program.units.map(({ unit }) => unit).join(", ")],
            ]}
          />
          <div>
            <Button
              component="a"
              size="xs"
              variant="light"
              leftSection={<IconDownload size={14} />}
              href={addresses.kernel(jobId, kernel.candidate)}
              download={kernel.filename}
            >
              Download · {bytes(kernel.size_bytes)}
            </Button>
          </div>
          <Tabs defaultValue="tir" keepMounted={false}>
            <Tabs.List>
              <Tabs.Tab value="tir">TIR</Tabs.Tab>
              <Tabs.Tab value="source">{sourceLabel(target)}</Tabs.Tab>
              <Tabs.Tab value="ranked">Ranked ({kernel.ranked.length})</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="tir" pt="sm">
              <Listing code={kernel.tir} label="Schedule in TIR" />
            </Tabs.Panel>
            <Tabs.Panel value="source" pt="sm">
              <Listing code={kernel.source} label="Generated code" />
            </Tabs.Panel>
            <Tabs.Panel value="ranked" pt="sm">
              <Ranked kernel={kernel} />
            </Tabs.Panel>
          </Tabs>
        </Stack>
      )}
    </Drawer>
  );
}

const sourceLabel = (target: Tuning["target"]) =>
  target?.["kind"] === "cuda" ? "CUDA source" : "Assembly";

/** Code to read and copy, in a box that scrolls by keyboard too. */
function Listing({ code, label }: { code: string; label: string }) {
  const lines = code.trimEnd().split("\n").length;
  return (
    <Stack gap={6}>
      <Group justify="space-between">
        <Text size="xs" c="dimmed">
          {count(lines)} {lines === 1 ? "line" : "lines"}
        </Text>
        <CopyButton value={code}>
          {({ copied, copy }) => (
            <Button
              size="compact-xs"
              variant="default"
              leftSection={<IconCopy size={12} />}
              onClick={copy}
            >
              {copied ? "Copied" : "Copy"}
            </Button>
          )}
        </CopyButton>
      </Group>
      <pre
        className={classes.listing}
        tabIndex={0}
        role="region"
        aria-label={label}
        data-testid="tuning-listing"
      >
        {code}
      </pre>
    </Stack>
  );
}

/** The best of all trials, measured again in isolation. */
function Ranked({ kernel }: { kernel: TuningKernel }) {
  return (
    <Table.ScrollContainer minWidth={440} type="native">
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Trial</Table.Th>
            <Table.Th>Candidate</Table.Th>
            <Table.Th ta="right">Told</Table.Th>
            <Table.Th ta="right">Alone</Table.Th>
            <Table.Th ta="right">Wall clock</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {kernel.ranked.map((one) => (
            <Table.Tr key={one.candidate} fw={one.candidate === kernel.candidate ? 600 : 400}>
              <Table.Td>{count(one.trial)}</Table.Td>
              <Table.Td ff="monospace">{shortId(one.candidate)}</Table.Td>
              <Table.Td ta="right">{milliseconds(one.told_ms)}</Table.Td>
              <Table.Td ta="right" title={one.reason || undefined}>
                {one.failure
                  ? failureWord(one.failure)
                  : one.device_ms !== null && milliseconds(one.device_ms)}
              </Table.Td>
              <Table.Td ta="right">{one.wall_ms !== null && milliseconds(one.wall_ms)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
