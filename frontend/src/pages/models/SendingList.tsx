import { ActionIcon, Group, Paper, Progress, Stack, Text } from "@mantine/core";
import { IconX } from "@tabler/icons-react";

import { ErrorNotice } from "@/components/ErrorNotice";
import { bytes } from "@/lib/format";

import type { SendingFile } from "./useSending";

interface SendingListProps {
  files: readonly SendingFile[];
  onRemove: (key: number) => void;
}

export function SendingList({ files, onRemove }: SendingListProps) {
  if (files.length === 0) return null;
  return (
    <Stack gap="xs" data-testid="upload-sending">
      {files.map((file) =>
        file.problem ? (
          <FailedFile key={file.key} file={file} onRemove={onRemove} />
        ) : (
          <FileOnItsWay key={file.key} file={file} onRemove={onRemove} />
        ),
      )}
    </Stack>
  );
}

interface FileProps {
  file: SendingFile;
  onRemove: (key: number) => void;
}

function FailedFile({ file, onRemove }: FileProps) {
  return (
    <div data-testid="upload-error">
      <ErrorNotice
        title={`${file.name} was not stored`}
        error={file.problem}
        onClose={() => onRemove(file.key)}
      />
    </div>
  );
}

function FileOnItsWay({ file, onRemove }: FileProps) {
  const sent = file.sent >= file.size;
  const percent = file.size === 0 ? 100 : (file.sent / file.size) * 100;
  return (
    <Paper px="md" py="xs">
      <Group justify="space-between" wrap="nowrap" gap="sm">
        <Text size="sm" truncate>
          {file.name}
        </Text>
        <Group gap="xs" wrap="nowrap">
          <Text size="xs" c="dimmed" style={{ whiteSpace: "nowrap" }}>
            {sent ? "Checking the file" : `${bytes(file.sent)} of ${bytes(file.size)}`}
          </Text>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Stop uploading ${file.name}`}
            onClick={() => onRemove(file.key)}
          >
            <IconX size={16} />
          </ActionIcon>
        </Group>
      </Group>
      <Progress value={percent} animated={sent} size="sm" mt={6} aria-label={`${file.name}, sent`} />
    </Paper>
  );
}
