import { Grid, Stack } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";

import { devicesQuery, uploadsQuery, zooQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { LoadMore } from "@/components/LoadMore";
import { PageHeader } from "@/components/PageHeader";
import { Panel } from "@/components/Panel";
import { formatTitles } from "@/lib/formats";

import { SendingList } from "./SendingList";
import { UploadsTable } from "./UploadsTable";
import { UploadZone } from "./UploadZone";
import { useSending } from "./useSending";
import { ZooTable } from "./ZooTable";

export function ModelsPage() {
  const sending = useSending((upload) =>
    notifications.show({ title: upload.filename, message: "Stored. A job can use it now." }),
  );
  const devices = useQuery(devicesQuery);
  const formats = formatTitles(devices.data?.flatMap((device) => device.capabilities.formats) ?? []);
  return (
    <>
      <PageHeader title="Models" description="Your own model files, and the zoo's networks." />
      <Stack gap="md">
        <UploadZone formats={formats} onFiles={sending.send} />
        <SendingList files={sending.files} onRemove={sending.remove} />
        <Grid gap="md">
          <Grid.Col span={{ base: 12, lg: 8 }}>
            <Uploads />
          </Grid.Col>
          <Grid.Col span={{ base: 12, lg: 4 }}>
            <Zoo />
          </Grid.Col>
        </Grid>
      </Stack>
    </>
  );
}

function Uploads() {
  const query = useInfiniteQuery(uploadsQuery);
  const uploads = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Panel title="Uploads" flush>
      {query.isPending && <Loading label="Loading the uploads" />}
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && uploads.length === 0 && (
        <EmptyState title="No model has been uploaded yet">
          Export one to ONNX, or with torch.export as a .pt2 file, and drop it above. The zoo's
          networks are ready without an upload.
        </EmptyState>
      )}
      {uploads.length > 0 && <UploadsTable uploads={uploads} />}
      <LoadMore query={query} />
    </Panel>
  );
}

function Zoo() {
  const query = useQuery(zooQuery);
  return (
    <Panel title="Zoo" note="built by the workers by name" flush>
      {query.isPending && <Loading label="Loading the zoo" />}
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.data?.length === 0 && (
        <EmptyState title="No worker has registered yet">
          A worker says which networks it can build when it starts. `plait status` shows what runs.
        </EmptyState>
      )}
      {query.data && query.data.length > 0 && <ZooTable models={query.data} />}
    </Panel>
  );
}
