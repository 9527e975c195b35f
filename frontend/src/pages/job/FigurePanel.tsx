import { Center, Skeleton, Text, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { figureQuery } from "@/api/queries";
import type { Clock, Figure, FigureKind } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Panel } from "@/components/Panel";
import { PlotlyFigure } from "@/components/PlotlyFigure";

import classes from "./FigurePanel.module.css";

const PADDING = 8;

interface FigurePanelProps {
  jobId: string;
  kind: FigureKind;
  title: string;
  note?: ReactNode;
  actions?: ReactNode;
  batchSize?: number | undefined;
  scheduler?: string | undefined;
  x?: Clock;
  rounds?: number;
  height: number;
  /** Nothing more is to come: an empty figure need not keep its room. */
  finished: boolean;
  /** Stands beside the figure, or above it where there is no room. */
  aside?: ReactNode;
  /** What to say while there is nothing to draw. */
  empty: string;
}

/** A figure with more rows than fit asks for its own height. */
function heightOf(figure: Figure | undefined): number | undefined {
  const height = figure?.layout["height"];
  return typeof height === "number" ? height + PADDING : undefined;
}

/** One figure of the job, at a height that its content changes only where it must. */
export function FigurePanel(props: FigurePanelProps) {
  const theme = useComputedColorScheme("light");
  const query = useQuery(
    figureQuery(props.jobId, props.kind, {
      batchSize: props.batchSize,
      scheduler: props.scheduler,
      x: props.x,
      rounds: props.rounds,
      theme,
    }),
  );
  const empty = query.data?.data.length === 0;
  const height = heightOf(query.data) ?? props.height;
  return (
    <Panel title={props.title} note={props.note} actions={props.actions} flush>
      <div className={props.aside ? classes.beside : undefined}>
        {props.aside && <div className={classes.aside}>{props.aside}</div>}
        <div
          style={{ height: empty && props.finished ? 64 : height, padding: `0 8px ${PADDING}px` }}
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
          {query.data && !empty && <PlotlyFigure figure={query.data} label={props.title} />}
        </div>
      </div>
    </Panel>
  );
}
