import { Grid, Group, SegmentedControl, Text } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import type { Job, SearchData } from "@/api/types";
import { isFinished } from "@/lib/jobStates";

import { FigurePanel } from "./FigurePanel";
import { SearchPanel } from "./SearchPanel";
import { TimelinePanel } from "./TimelinePanel";

const route = getRouteApi("/jobs/$jobId");
const HEIGHT = 340;

interface FiguresProps {
  job: Job;
  searches: Readonly<Record<string, SearchData>>;
}

/** The figures of one batch size; which one is in the address. */
export function Figures({ job, searches }: FiguresProps) {
  const { batch } = route.useSearch();
  const sizes = job.spec.batch_sizes;
  const batchSize = batch !== undefined && sizes.includes(batch) ? batch : sizes[0];
  // In the order in which they began.
  const ofBatch = Object.values(searches).filter((search) => search.batch_size === batchSize);
  const figure = { jobId: job.id, batchSize, height: HEIGHT, finished: isFinished(job.state) };
  return (
    <>
      {sizes.length > 1 && <BatchChoice sizes={sizes} chosen={batchSize} />}
      <Grid gap="md">
        <Grid.Col span={12}>
          <SearchPanel job={job} batchSize={batchSize} searches={ofBatch} />
        </Grid.Col>
        <Grid.Col span={12}>
          <TimelinePanel job={job} batchSize={batchSize} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <FigurePanel
            {...figure}
            kind="latency"
            title="Latency"
            note="median and 95 % interval"
            empty="Nothing has been measured"
          />
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 6 }}>
          <FigurePanel
            {...figure}
            kind="rounds"
            title="Measurement rounds"
            note="candidates measured at once, and how far they deviate"
            empty="No round has been measured"
          />
        </Grid.Col>
      </Grid>
    </>
  );
}

function BatchChoice({ sizes, chosen }: { sizes: readonly number[]; chosen: number | undefined }) {
  const navigate = route.useNavigate();
  return (
    <Group gap="sm">
      <Text size="sm" fw={600} id="batch-choice">
        Batch size
      </Text>
      <SegmentedControl
        size="xs"
        aria-labelledby="batch-choice"
        data={sizes.map(String)}
        value={String(chosen)}
        onChange={(value) =>
          // The schedulers to choose from belong to a batch size, so that choice is let go.
          void navigate({ search: { batch: Number(value) }, replace: true, resetScroll: false })
        }
        data-testid="figure-batch"
      />
    </Group>
  );
}
