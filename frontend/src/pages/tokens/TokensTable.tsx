import { Badge, Button, Code, Group, Table, Text } from "@mantine/core";
import { useState } from "react";

import { useRevokeToken } from "@/api/mutations";
import type { Token } from "@/api/types";
import { Ago } from "@/components/Ago";
import { ConfirmDialog } from "@/components/ConfirmDialog";
import { date } from "@/lib/format";

export function TokensTable({ tokens }: { tokens: readonly Token[] }) {
  const [doomed, setDoomed] = useState<Token | null>(null);
  const revoke = useRevokeToken();
  const close = () => {
    setDoomed(null);
    revoke.reset();
  };
  return (
    <>
      <Table.ScrollContainer minWidth={760} type="native">
        <Table highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Name</Table.Th>
              <Table.Th>Ends in</Table.Th>
              <Table.Th>Scopes</Table.Th>
              <Table.Th>Created</Table.Th>
              <Table.Th>Last used</Table.Th>
              <Table.Th>Expires</Table.Th>
              <Table.Th aria-label="Actions" />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {tokens.map((token) => (
              <TokenRow key={token.id} token={token} onRevoke={() => setDoomed(token)} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <ConfirmDialog
        opened={doomed !== null}
        title="Revoke this token?"
        confirm="Revoke"
        pending={revoke.isPending}
        error={revoke.error}
        onClose={close}
        onConfirm={() => doomed && revoke.mutate(doomed.id, { onSuccess: close })}
      >
        Programs that use “{doomed?.name}” are refused from then on. This cannot be undone.
      </ConfirmDialog>
    </>
  );
}

function TokenRow({ token, onRevoke }: { token: Token; onRevoke: () => void }) {
  const revoked = token.revoked_at !== null;
  return (
    <Table.Tr data-testid="token-row" {...(revoked ? { c: "dimmed" } : {})}>
      <Table.Td>
        <Text size="sm" fw={500} td={revoked ? "line-through" : undefined}>
          {token.name}
        </Text>
      </Table.Td>
      <Table.Td>
        <Code>…{token.hint}</Code>
      </Table.Td>
      <Table.Td>
        <Group gap={4}>
          {token.scopes.map((scope) => (
            <Badge key={scope} variant="default" size="sm" tt="none" fw={500}>
              {scope}
            </Badge>
          ))}
        </Group>
      </Table.Td>
      <Table.Td>
        <Ago at={token.created_at} />
      </Table.Td>
      <Table.Td>{token.last_used_at ? <Ago at={token.last_used_at} /> : "never"}</Table.Td>
      <Table.Td>{token.expires_at ? date(token.expires_at) : "never"}</Table.Td>
      <Table.Td ta="right">
        {revoked ? (
          "revoked"
        ) : (
          <Button size="compact-xs" variant="default" onClick={onRevoke}>
            Revoke
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}
