import { ActionIcon, Badge, Button, Code, Group, Table, Text, Tooltip } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { useDeleteUpload } from "@/api/mutations";
import type { Upload } from "@/api/types";
import { Ago } from "@/components/Ago";
import { ConfirmDialog } from "@/components/ConfirmDialog";
import { ModelLink } from "@/components/ModelLink";
import { bytes, shortId } from "@/lib/format";

export function UploadsTable({ uploads }: { uploads: readonly Upload[] }) {
  const [doomed, setDoomed] = useState<Upload | null>(null);
  const remove = useDeleteUpload();
  const close = () => {
    setDoomed(null);
    remove.reset();
  };
  return (
    <>
      <Table highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>File</Table.Th>
            <Table.Th visibleFrom="sm">Format</Table.Th>
            <Table.Th ta="right">Size</Table.Th>
            <Table.Th visibleFrom="sm">SHA-256</Table.Th>
            <Table.Th visibleFrom="sm">Uploaded</Table.Th>
            <Table.Th aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {uploads.map((upload) => (
            <UploadRow key={upload.id} upload={upload} onDelete={() => setDoomed(upload)} />
          ))}
        </Table.Tbody>
      </Table>
      <ConfirmDialog
        opened={doomed !== null}
        title="Delete this model?"
        confirm="Delete"
        pending={remove.isPending}
        error={remove.error}
        onClose={close}
        onConfirm={() => doomed && remove.mutate(doomed.id, { onSuccess: close })}
      >
        {doomed?.filename} is removed from storage. Jobs that have used it keep it from being
        deleted.
      </ConfirmDialog>
    </>
  );
}

function UploadRow({ upload, onDelete }: { upload: Upload; onDelete: () => void }) {
  return (
    <Table.Tr data-testid="upload-row">
      {/* Takes what the others leave, however long the name is. */}
      <Table.Td w="100%" maw={0}>
        <Text size="sm" fw={500} truncate title={upload.filename}>
          <ModelLink source={`upload:${upload.id}`}>{upload.filename}</ModelLink>
        </Text>
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <Badge variant="default" size="sm" tt="none" fw={500}>
          {upload.format}
        </Badge>
      </Table.Td>
      <Table.Td ta="right" style={{ whiteSpace: "nowrap" }}>
        {bytes(upload.size_bytes)}
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <Tooltip label={upload.sha256} multiline maw={340} style={{ overflowWrap: "anywhere" }}>
          <Code>{shortId(upload.sha256)}</Code>
        </Tooltip>
      </Table.Td>
      <Table.Td visibleFrom="sm">
        <Ago at={upload.created_at} />
      </Table.Td>
      <Table.Td>
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Button
            size="compact-xs"
            variant="light"
            renderRoot={(props) => (
              <Link to="/jobs/new" search={{ model: `upload:${upload.id}` }} {...props} />
            )}
          >
            New job
          </Button>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`Delete ${upload.filename}`}
            onClick={onDelete}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </Group>
      </Table.Td>
    </Table.Tr>
  );
}
