import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { GraphSearch } from "@/lib/graphChoice";

interface ModelLinkProps {
  source: string;
  /** Which of the model's graphs. */
  graph?: GraphSearch;
  children: ReactNode;
  testId?: string;
}

/** To the page that shows the model's graph. */
export function ModelLink({ source, graph = {}, children, testId }: ModelLinkProps) {
  return (
    <Anchor
      inherit
      data-testid={testId}
      renderRoot={(props) => (
        <Link to="/models/$model" params={{ model: source }} search={graph} {...props} />
      )}
    >
      {children}
    </Anchor>
  );
}
