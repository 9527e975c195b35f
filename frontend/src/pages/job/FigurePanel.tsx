import { Center, Skeleton, Text, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { figureQuery } from "@/api/queries";
import type { FigureKind } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Panel } from "@/components/Panel";
import { PlotlyFigure } from "@/components/PlotlyFigure";

interface FigurePanelProps {
  jobId: string;
  kind: FigureKind;
  title: string;
  note?: ReactNode;
  actions?: ReactNode;
  batchSize: number | undefined;
  scheduler?: string | undefined;
  height: number;
  /** Nothing more is to come: an empty figure need not keep its room. */
  finished: boolean;
  /** What to say while there is nothing to draw. */
  empty: string;
}

/** One figure of the job, at a height that its content does not change. */
export function FigurePanel(props: FigurePanelProps) {
  const theme = useComputedColorScheme("light");
  const query = useQuery(
    figureQuery(props.jobId, props.kind, {
      batchSize: props.batchSize,
      scheduler: props.scheduler,
      theme,
    }),
  );
  const empty = query.data?.data.length === 0;
  return (
    <Panel title={props.title} note={props.note} actions={props.actions} flush>
      <div
        style={{ height: empty && props.finished ? 64 : props.height, padding: "0 8px 8px" }}
        data-testid={`figure-${props.kind}`}
      >
        {query.isPending && <Skeleton h="100%" />}
        {query.isError && !query.data && (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        )}
        {empty && (
          <Center h="100%">
            <Text size="sm" c="dimmed">
              {props.empty}
            </Text>
          </Center>
        )}
        {query.data && !empty && (
          <PlotlyFigure figure={query.data} label={props.title} />
        )}
      </div>
    </Panel>
  );
}
