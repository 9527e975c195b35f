import { SimpleGrid } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { devicesQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { PageHeader } from "@/components/PageHeader";

import { DeviceCard } from "./DeviceCard";

export function DevicesPage() {
  const query = useQuery(devicesQuery);
  return (
    <>
      <PageHeader title="Devices" description="What the workers offer to tune on." />
      {query.isPending && <Loading label="Loading the devices" />}
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.data?.length === 0 && (
        <EmptyState title="No device has registered yet">
          A worker registers its devices when it starts. `plait status` shows what runs, and `plait
          doctor` what is missing.
        </EmptyState>
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
        {query.data?.map((device) => <DeviceCard key={device.name} device={device} />)}
      </SimpleGrid>
    </>
  );
}
