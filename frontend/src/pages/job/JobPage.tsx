import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { jobQuery } from "@/api/queries";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";

import { JobView } from "./JobView";

const route = getRouteApi("/jobs/$jobId");

export function JobPage() {
  const { jobId } = route.useParams();
  const query = useQuery(jobQuery(jobId));
  // The key keeps one job's log and figures from being shown as another's.
  if (query.data) return <JobView key={jobId} job={query.data} />;
  if (query.isError) {
    return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  }
  return <Loading label="Loading the job" />;
}
