import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { devicesQuery } from "@/api/queries";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { PageHeader } from "@/components/PageHeader";

import { JobForm } from "./JobForm";

const route = getRouteApi("/jobs/new");

export function NewJobPage() {
  const { model } = route.useSearch();
  const devices = useQuery(devicesQuery);
  return (
    <>
      <PageHeader
        title="New job"
        description="Finds, by measuring on the device, the fastest way to run a model, or the fastest kernels for it."
      />
      {devices.isPending && <Loading label="Loading the devices" />}
      {devices.isError && !devices.data && (
        <ErrorNotice error={devices.error} onRetry={() => void devices.refetch()} />
      )}
      {devices.data?.length === 0 && (
        <EmptyState
          title="No device has registered yet"
          action={
            <Button
              variant="default"
              mt="sm"
              renderRoot={(props) => <Link to="/devices" {...props} />}
            >
              To the devices
            </Button>
          }
        >
          A job needs a worker's device. This page goes on by itself when the first one starts.
        </EmptyState>
      )}
      {devices.data && devices.data.length > 0 && (
        <JobForm key={model ?? ""} model={model} devices={devices.data} />
      )}
    </>
  );
}
