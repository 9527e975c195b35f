import { Grid, SegmentedControl, Select } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import type { Clock, Job } from "@/api/types";
import { isFinished } from "@/lib/jobStates";

import { FigurePanel } from "../FigurePanel";

const route = getRouteApi("/jobs/$jobId");
const HEIGHT = 340;
const NEWEST = 8;
const NOTHING = "No round has been measured";

/** How tuning went, round by round; what is drawn over what is in the address. */
export function TuningFigures({ job }: { job: Job }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const choose = (choice: { x?: Clock; newest?: number }) =>
    void navigate({ search: { ...search, ...choice }, replace: true, resetScroll: false });
  const figure = { jobId: job.id, height: HEIGHT, finished: isFinished(job.state) };
  const newest = search.newest ?? NEWEST;
  return (
    <Grid gap="md">
      <Grid.Col span={12}>
        <FigurePanel
          {...figure}
          kind="tuning-best"
          title="Best latency"
          note="as the tuner is told, of each program"
          x={search.x ?? "trials"}
          empty="No candidate has a latency"
          actions={
            <SegmentedControl
              size="xs"
              aria-label="Draw over"
              data={[
                { value: "trials", label: "Trials" },
                { value: "time", label: "Time" },
              ]}
              value={search.x ?? "trials"}
              onChange={(value) => choose({ x: value as Clock })}
              data-testid="tuning-clock"
            />
          }
        />
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <FigurePanel
          {...figure}
          kind="tuning-parallelism"
          title="Degree of parallelism"
          note="candidates in flight on a device"
          empty={NOTHING}
        />
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <FigurePanel
          {...figure}
          kind="tuning-deviation"
          title="Deviation"
          note="of measurements in parallel from isolated ones"
          empty={NOTHING}
        />
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <FigurePanel
          {...figure}
          kind="tuning-failures"
          title="Failures"
          note="by kind, and the time a candidate is given"
          empty={NOTHING}
        />
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 6 }}>
        <FigurePanel
          {...figure}
          kind="tuning-cpu"
          title="CPU use"
          note="of the worker's cores, by anybody"
          empty="The CPU's use is not known"
        />
      </Grid.Col>
      <Grid.Col span={12}>
        <FigurePanel
          {...figure}
          kind="tuning-processes"
          title="Processes"
          note="which process did what, and when"
          rounds={newest}
          empty={NOTHING}
          actions={
            <Select
              size="xs"
              w={150}
              aria-label="Rounds of the process timeline"
              data={[1, 4, 8, 16, 64].map((rounds) => ({
                value: String(rounds),
                label: rounds === 1 ? "Last round" : `Last ${rounds} rounds`,
              }))}
              value={String(newest)}
              onChange={(value) => value && choose({ newest: Number(value) })}
              data-testid="tuning-newest"
            />
          }
        />
      </Grid.Col>
    </Grid>
  );
}
