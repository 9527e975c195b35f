import { Box } from "@mantine/core";
import type { ErrorComponentProps } from "@tanstack/react-router";

import { ErrorNotice } from "./ErrorNotice";

export function FailedPage({ error, reset }: ErrorComponentProps) {
  return (
    <Box p="md" maw={720} mx="auto">
      <ErrorNotice error={error} onRetry={reset} />
    </Box>
  );
}
