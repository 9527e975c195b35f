import { Button, Code, Group, Stack, Text, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";

import { addresses, artifactsQuery } from "@/api/queries";
import type { Job } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Panel } from "@/components/Panel";
import { bytes, shortId } from "@/lib/format";
import { isFinished } from "@/lib/jobStates";

/** The artifacts: each a zip with the model, its schedule and a run.py that needs only torch. */
export function DownloadsPanel({ job }: { job: Job }) {
  const query = useQuery(artifactsQuery(job.id));
  return (
    <Panel title="Downloads">
      <Stack gap="sm" mih={48}>
        {query.isError && !query.data && (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        )}
        {query.data?.map((artifact) => (
          <div key={artifact.id}>
            <Button
              component="a"
              href={addresses.artifact(job.id, artifact.id)}
              download={artifact.filename}
              fullWidth
              variant="light"
              leftSection={<IconDownload size={16} />}
              data-testid="artifact-download"
            >
              Artifact, batch {artifact.batch_size} · {bytes(artifact.size_bytes)}
            </Button>
            <Group gap={6} mt={4} wrap="nowrap">
              <Text size="xs" c="dimmed" truncate title={artifact.filename}>
                {artifact.filename}
              </Text>
              <Tooltip label={`SHA-256 ${artifact.sha256}`} multiline maw={340}>
                <Code fz="xs">{shortId(artifact.sha256)}</Code>
              </Tooltip>
            </Group>
          </div>
        ))}
        {query.data && (
          <Text size="xs" c="dimmed">
            {query.data.length > 0
              ? "A zip with the model, its schedule and a run.py that needs only torch."
              : isFinished(job.state)
                ? "This job has left nothing to download."
                : "The artifact can be downloaded when the job has succeeded."}
          </Text>
        )}
      </Stack>
    </Panel>
  );
}
