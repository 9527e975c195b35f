import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

/** To a job's page, from within a sentence. */
export function JobLink({ id, children }: { id: string; children: ReactNode }) {
  return (
    <Anchor
      inherit
      renderRoot={(props) => <Link to="/jobs/$jobId" params={{ jobId: id }} {...props} />}
    >
      {children}
    </Anchor>
  );
}
