import { Text } from "@mantine/core";
import { Fragment } from "react";

import type { BatchSummary } from "@/api/types";
import { schedulerName } from "@/lib/format";

import classes from "./Leaderboard.module.css";

/** Who took no part in the measuring, and why; nothing where everybody did. */
export function Skipped({ summaries }: { summaries: readonly BatchSummary[] }) {
  const some = summaries.filter(({ skipped }) => skipped.length > 0);
  if (some.length === 0) return null;
  return (
    <section className={classes.skipped} aria-label="Skipped" data-testid="job-skipped">
      {some.map(({ batch_size: batch, skipped }) => (
        <div key={batch}>
          <Text size="xs" fw={600} c="dimmed" my={4}>
            {summaries.length > 1 ? `Skipped, batch ${batch}` : "Skipped"}
          </Text>
          <dl>
            {skipped.map(({ contender, reason }) => (
              <Fragment key={contender}>
                <dt>{schedulerName(contender)}</dt>
                <dd>{reason}</dd>
              </Fragment>
            ))}
          </dl>
        </div>
      ))}
    </section>
  );
}
