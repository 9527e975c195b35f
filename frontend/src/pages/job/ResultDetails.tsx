import { Alert, Button, Drawer, Group, Stack, Text } from "@mantine/core";
import { IconActivity, IconDownload, IconTimeline } from "@tabler/icons-react";
import type { ReactNode } from "react";

import { addresses } from "@/api/queries";
import type { Result } from "@/api/types";
import { Facts } from "@/components/Facts";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { conditionSections, noiseComplaint } from "@/lib/conditions";
import { isAlternative } from "@/lib/fates";
import { absoluteError, count, interval, milliseconds, schedulerName, times } from "@/lib/format";
import { providerLabel } from "@/lib/providers";
import {
  searchNotes,
  searchOutcome,
  searchSeconds,
  searchWords,
  withoutBarriers,
} from "@/lib/searchFacts";
import { verdictOf } from "@/lib/verdict";

/** Out of the worker's free JSON, as far as it was in a tournament. */
function speedupWords(result: Result): string | null {
  const verdict = verdictOf(result.search);
  if (verdict === null) return null;
  const range = `${times(verdict.low)} to ${times(verdict.high)}`;
  return `${times(verdict.speedup)} (${range})${verdict.differs ? "" : ", no difference"}`;
}

interface ResultDetailsProps {
  jobId: string;
  /** Null while nothing is chosen. */
  result: Result | null;
  onClose: () => void;
}

/** All that is known of one result: the figures, what finding it took, under what conditions. */
export function ResultDetails({ jobId, result, onClose }: ResultDetailsProps) {
  return (
    <Drawer
      opened={result !== null}
      onClose={onClose}
      position="right"
      size="md"
      title={
        result && (
          <Group gap="xs">
            <Text fw={600}>
              {schedulerName(result.scheduler)}, batch {result.batch_size}
            </Text>
            {result.simulated && <SimulatedBadge />}
          </Group>
        )
      }
    >
      {result && <Details jobId={jobId} result={result} />}
    </Drawer>
  );
}

function Details({ jobId, result }: { jobId: string; result: Result }) {
  const complaint = noiseComplaint(result.environment);
  const notes = searchNotes(result.search);
  return (
    <Stack gap="md" data-testid="result-details">
      {complaint && (
        <Alert color="orange" icon={<IconActivity />} title="Measured although the machine was busy">
          {complaint}
        </Alert>
      )}
      <Section title={result.simulated ? "Simulated" : "Measured"}>
        <Facts
          facts={[
            ["Latency", milliseconds(result.latency_ms)],
            ["95 % interval", interval(result.low_ms, result.high_ms)],
            ["Runs", count(result.samples)],
            ["To baseline", speedupWords(result)],
            ["Place", result.place],
            ["Kind", isAlternative(result) ? "alternative: not a schedule" : "schedule"],
            ["Kernels", isAlternative(result) ? "its own" : providerLabel(result.provider)],
            ["Barriers", withoutBarriers(result.search) ? "none between its stages" : null],
            ["Verified", result.verified ? "yes" : "no"],
            ["Max. abs. error", absoluteError(result.max_abs_error)],
          ]}
        />
      </Section>
      {(searchWords(result.search) !== "" || notes.length > 0) && (
        <Section title="Search">
          <Facts
            facts={[
              ["Time", searchSeconds(result.search)],
              ["Size", searchWords(result.search)],
              ...searchOutcome(result.search, result.simulated),
            ]}
          />
          {notes.map((note) => (
            <Text key={note} size="sm" mt={4}>
              {note}
            </Text>
          ))}
        </Section>
      )}
      {conditionSections(result).map(({ title, lines }) => (
        <Section key={title} title={title}>
          <Facts facts={lines} />
        </Section>
      ))}
      {!isAlternative(result) && <Downloads jobId={jobId} result={result} />}
    </Stack>
  );
}

function Downloads({ jobId, result }: { jobId: string; result: Result }) {
  return (
    <Group gap="xs">
      <Button
        component="a"
        size="xs"
        variant="light"
        leftSection={<IconDownload size={14} />}
        href={addresses.schedule(jobId, result.id)}
        download
      >
        Schedule
      </Button>
      <Button
        component="a"
        size="xs"
        variant="light"
        leftSection={<IconTimeline size={14} />}
        href={addresses.trace(jobId, result.id)}
        download
      >
        Chrome trace
      </Button>
    </Group>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <Text size="xs" fw={600} c="dimmed" mb={4}>
        {title}
      </Text>
      {children}
    </section>
  );
}
