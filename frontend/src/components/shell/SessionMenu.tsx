import { ActionIcon, Menu, Text } from "@mantine/core";
import { IconLogout, IconUser } from "@tabler/icons-react";

import { useLogOut } from "@/api/mutations";
import type { Session } from "@/api/types";

export function SessionMenu({ session }: { session: Session }) {
  const logOut = useLogOut();
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Session">
          <IconUser size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          Logged in by {session.authenticated_by === "session" ? "a login link" : "a token"}
        </Menu.Label>
        <Text size="xs" px="sm" pb="xs">
          May: {session.scopes.join(", ")}
        </Text>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => logOut.mutate()}>
          Log out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
