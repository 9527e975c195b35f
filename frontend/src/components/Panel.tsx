import { Group, Paper, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

interface PanelProps {
  title: string;
  /** A short line beside the title. */
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** Tables run to the panel's edges. */
  flush?: boolean;
  /** Fills what its neighbours leave of a column. */
  grow?: boolean;
}

/** A titled box; every part of a page is one. */
export function Panel({ title, note, actions, children, flush = false, grow = false }: PanelProps) {
  return (
    <Paper component="section" aria-label={title} p={0} miw={0} flex={grow ? 1 : undefined}>
      <Group justify="space-between" gap="xs" px="md" pt="sm" pb={flush ? "xs" : 6} mih={46}>
        <Group gap="xs" align="baseline">
          <Title order={2}>{title}</Title>
          {note && (
            <Text size="xs" c="dimmed" component="div">
              {note}
            </Text>
          )}
        </Group>
        {actions}
      </Group>
      {flush ? children : <div style={{ padding: "0 var(--mantine-spacing-md) var(--mantine-spacing-md)" }}>{children}</div>}
    </Paper>
  );
}
