import { Button, Code, Group, Stack, Text, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { addresses, artifactsQuery } from "@/api/queries";
import type { Artifact, Job } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Panel } from "@/components/Panel";
import { SimulatedBadge } from "@/components/SimulatedBadge";
import { isSimulatedName } from "@/lib/deviceFacts";
import { bytes, shortId } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";

/** The artifacts: each a zip with the model, its schedule and a run.py that needs only torch. */
export function DownloadsPanel({ job }: { job: Job }) {
  const query = useQuery(artifactsQuery(job.id));
  const artifacts = query.data ?? [];
  const waiting = isFinished(job.state)
    ? []
    : job.spec.batch_sizes.filter((size) => artifacts.every((each) => each.batch_size !== size));
  const simulated = isSimulatedName(job.spec.device);
  return (
    <Panel title="Downloads" actions={simulated && <SimulatedBadge />}>
      <Stack gap="sm">
        {query.isError && !query.data && (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        )}
        {artifacts.map((artifact) => (
          <Download key={artifact.id} artifact={artifact} jobId={job.id} />
        ))}
        {waiting.map((size) => (
          <Waiting key={size} batchSize={size} />
        ))}
        <Text size="xs" c="dimmed">
          {artifacts.length + waiting.length > 0
            ? `A zip with the model, its schedule and a run.py that needs only torch.${simulated ? " The schedule was chosen in simulation: measure it on the device itself." : ""}`
            : query.isSuccess && "This job has left nothing to download."}
        </Text>
      </Stack>
    </Panel>
  );
}

function Download({ artifact, jobId }: { artifact: Artifact; jobId: string }) {
  return (
    <div>
      <Button
        component="a"
        href={addresses.artifact(jobId, artifact.id)}
        download={artifact.filename}
        fullWidth
        variant="light"
        leftSection={<IconDownload size={16} />}
        data-testid="artifact-download"
      >
        Artifact, batch {artifact.batch_size} · {bytes(artifact.size_bytes)}
      </Button>
      <Group gap={6} mt={4} h={20} wrap="nowrap">
        <Text size="xs" c="dimmed" truncate title={artifact.filename}>
          {artifact.filename}
        </Text>
        <Tooltip label={`SHA-256 ${artifact.sha256}`} multiline maw={340}>
          <Code fz="xs">{shortId(artifact.sha256)}</Code>
        </Tooltip>
      </Group>
    </div>
  );
}

/** As high as the download that takes its place. */
function Waiting({ batchSize }: { batchSize: number }) {
  return (
    <div>
      <Button fullWidth variant="default" disabled>
        Artifact, batch {batchSize}
      </Button>
      <Text size="xs" c="dimmed" mt={4} h={20}>
        When the job has succeeded
      </Text>
    </div>
  );
}
