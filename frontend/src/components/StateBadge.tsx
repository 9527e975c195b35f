import { Badge } from "@mantine/core";

import type { JobState } from "@/api/types";

const COLOURS: Record<JobState, string> = {
  queued: "gray.5",
  importing: "blue",
  tuning: "blue",
  verifying: "blue",
  succeeded: "green",
  failed: "red",
  cancelling: "orange",
  cancelled: "gray.5",
};

export function StateBadge({ state, testId }: { state: JobState; testId?: string }) {
  return (
    <Badge variant="dot" color={COLOURS[state]} tt="none" fw={600} data-testid={testId} data-state={state}>
      {state}
    </Badge>
  );
}
