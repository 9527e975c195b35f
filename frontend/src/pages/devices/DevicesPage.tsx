import { SimpleGrid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { devicesQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { PageHeader } from "@/components/PageHeader";
import { groupDevices } from "@/lib/deviceFacts";

import { DeviceCard } from "./DeviceCard";
import { ProfilesPanel } from "./ProfilesPanel";
import { SimulatedPanel } from "./SimulatedPanel";

export function DevicesPage() {
  const query = useQuery(devicesQuery);
  const { measured, simulated } = groupDevices(query.data ?? []);
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
      <Stack gap="md">
        <SimpleGrid cols={{ base: 1, md: 2 }} spacing="md">
          {measured.map((device) => (
            <DeviceCard key={device.name} device={device} />
          ))}
        </SimpleGrid>
        {simulated.length > 0 && <SimulatedPanel devices={simulated} />}
        <ProfilesPanel />
      </Stack>
    </>
  );
}
