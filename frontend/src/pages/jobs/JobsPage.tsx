import { Button, Paper, Select } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";

import type { JobState } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { LoadMore } from "@/components/LoadMore";
import { PageHeader } from "@/components/PageHeader";
import { JOB_STATES } from "@/lib/jobStates";

import { JobsTable } from "./JobsTable";
import { useJobList } from "./useJobList";

const route = getRouteApi("/jobs");

export function JobsPage() {
  const { state } = route.useSearch();
  const query = useJobList(state);
  const jobs = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <PageHeader title="Jobs" actions={<StateFilter state={state} />} />
      <Paper p={0}>
        {query.isPending && <Loading label="Loading the jobs" />}
        {query.isError && jobs.length === 0 && (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        )}
        {query.isSuccess && jobs.length === 0 && <NoJobs state={state} />}
        {jobs.length > 0 && <JobsTable jobs={jobs} />}
        <LoadMore query={query} />
      </Paper>
    </>
  );
}

function StateFilter({ state }: { state: JobState | undefined }) {
  const navigate = route.useNavigate();
  return (
    <Select
      aria-label="Show jobs in state"
      size="xs"
      w={150}
      value={state ?? ""}
      data={[{ value: "", label: "All states" }, ...JOB_STATES]}
      onChange={(value) =>
        void navigate({ search: value ? { state: value as JobState } : {}, replace: true })
      }
      data-testid="jobs-filter"
    />
  );
}

function NoJobs({ state }: { state: JobState | undefined }) {
  if (state) return <EmptyState title={`No job is ${state}`} />;
  return (
    <EmptyState
      title="No job yet"
      action={
        <Button mt="sm" renderRoot={(props) => <Link to="/jobs/new" {...props} />}>
          Start the first one
        </Button>
      }
    >
      A job tunes on one device, and hands back the fastest schedule of a model that it has verified, or its fastest kernels.
    </EmptyState>
  );
}
