import { Alert, Button, Code, CopyButton, Group, Text } from "@mantine/core";
import { IconCheck, IconCopy, IconKey } from "@tabler/icons-react";

import type { TokenCreated } from "@/api/types";

interface NewTokenNoticeProps {
  token: TokenCreated;
  onClose: () => void;
}

/** The only time that the secret is seen. */
export function NewTokenNotice({ token, onClose }: NewTokenNoticeProps) {
  return (
    <Alert
      mb="md"
      color="green"
      icon={<IconKey />}
      title={`Token “${token.name}” was created`}
      withCloseButton
      closeButtonLabel="Dismiss"
      onClose={onClose}
      data-testid="token-created"
    >
      <Text size="sm">Copy it now: only a digest is stored, so it cannot be shown again.</Text>
      <Group gap="xs" mt="xs">
        <Code fz="sm" style={{ overflowWrap: "anywhere" }} data-testid="token-secret">
          {token.token}
        </Code>
        <CopyButton value={token.token}>
          {({ copied, copy }) => (
            <Button
              size="compact-sm"
              variant="default"
              onClick={copy}
              leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
            >
              {copied ? "Copied" : "Copy"}
            </Button>
          )}
        </CopyButton>
      </Group>
    </Alert>
  );
}
