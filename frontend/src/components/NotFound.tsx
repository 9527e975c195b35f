import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { EmptyState } from "./EmptyState";

export function NotFound() {
  return (
    <EmptyState
      title="There is no such page"
      action={
        <Button mt="sm" variant="default" renderRoot={(props) => <Link to="/jobs" {...props} />}>
          To the jobs
        </Button>
      }
    >
      The address may be mistyped, or what it named is gone.
    </EmptyState>
  );
}
