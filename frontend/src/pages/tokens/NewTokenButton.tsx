import { Button, Modal } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";

import type { TokenCreated } from "@/api/types";

import { TokenForm } from "./TokenForm";

export function NewTokenButton({ onCreated }: { onCreated: (token: TokenCreated) => void }) {
  const [opened, { open, close }] = useDisclosure();
  return (
    <>
      <Button size="xs" leftSection={<IconPlus size={14} />} onClick={open} data-testid="token-new">
        New token
      </Button>
      <Modal opened={opened} onClose={close} title="New token">
        <TokenForm
          onCreated={(token) => {
            close();
            onCreated(token);
          }}
        />
      </Modal>
    </>
  );
}
