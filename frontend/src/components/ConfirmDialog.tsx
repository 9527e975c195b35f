import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";

import { ErrorNotice } from "./ErrorNotice";

interface ConfirmDialogProps {
  opened: boolean;
  title: string;
  children: ReactNode;
  confirm: string;
  pending: boolean;
  error: unknown;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks before something that cannot be undone. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  return (
    <Modal opened={props.opened} onClose={props.onClose} title={props.title} size="md">
      <Stack gap="md">
        <Text size="sm" component="div" style={{ overflowWrap: "anywhere" }}>
          {props.children}
        </Text>
        {props.error !== null && props.error !== undefined && <ErrorNotice error={props.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={props.onClose}>
            Keep it
          </Button>
          <Button color="red" loading={props.pending} onClick={props.onConfirm} data-autofocus>
            {props.confirm}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
