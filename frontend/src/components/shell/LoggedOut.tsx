import { Center, Code, Group, Paper, Stack, Text, Title } from "@mantine/core";

import { Logo } from "../Logo";

export function LoggedOut() {
  return (
    <Center component="main" mih="100vh" p="md" data-testid="logged-out">
      <Paper maw={440} p="xl">
        <Stack gap="md">
          <Group gap="sm">
            <Logo size={30} />
            <Title order={1}>Plait</Title>
          </Group>
          <Text size="sm">
            You are not logged in. Open the link that <Code>plait up</Code> prints when it is ready,
            or ask for a new one on the machine that runs the service:
          </Text>
          <Code block>plait login</Code>
          <Text size="sm" c="dimmed">
            A link works once and for a limited time. Programs use a token instead:{" "}
            <Code>plait token create</Code>.
          </Text>
        </Stack>
      </Paper>
    </Center>
  );
}
