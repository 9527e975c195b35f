import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { type GraphChoice, graphQuery, inspectionsQuery, modelQuery } from "@/api/queries";
import type { Job, Model } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Loading } from "@/components/Loading";
import { choiceWords, graphChoice } from "@/lib/graphChoice";
import { isFinished } from "@/lib/jobStates";

import { GraphView } from "./GraphView";
import { InspectionProgress } from "./InspectionProgress";
import { LastInspectionFailed, NotInspected } from "./InspectionStates";
import { ModelHeader } from "./ModelHeader";

const route = getRouteApi("/models/$model");

export function ModelPage() {
  const { model: source } = route.useParams();
  const choice = graphChoice(route.useSearch());
  const query = useQuery(modelQuery(source));
  if (query.isError && !query.data) {
    return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  }
  if (!query.data) return <Loading label="Loading the model" />;
  return (
    <>
      <ModelHeader model={query.data} choice={choice} />
      {/* The key keeps one graph's selection from being shown in another. */}
      <ModelGraph key={`${source} ${choiceWords(choice)}`} model={query.data} choice={choice} />
    </>
  );
}

/** One graph of the model: what is known of it, or how to have it inspected. */
function ModelGraph({ model, choice }: { model: Model; choice: GraphChoice }) {
  const graph = useQuery(graphQuery(model.source, choice));
  const inspections = useQuery(inspectionsQuery(model.source, choice));
  const failure = graph.error ?? inspections.error;
  if (failure && (graph.data === undefined || inspections.data === undefined)) {
    const retry = () => void Promise.all([graph.refetch(), inspections.refetch()]);
    return <ErrorNotice error={failure} onRetry={retry} />;
  }
  if (graph.data === undefined || inspections.data === undefined) {
    return <Loading label="Loading the graph" />;
  }
  const latest = inspections.data[0];
  return (
    <>
      {latest && !isFinished(latest.state) && (
        <InspectionProgress key={latest.id} job={latest} source={model.source} />
      )}
      {graph.data ? (
        <>
          {latest?.state === "failed" && <LastInspectionFailed job={latest} kept />}
          <GraphView facts={graph.data} />
        </>
      ) : (
        <WithoutGraph model={model} choice={choice} latest={latest} />
      )}
    </>
  );
}

interface WithoutGraphProps {
  model: Model;
  choice: GraphChoice;
  latest: Job | undefined;
}

function WithoutGraph({ model, choice, latest }: WithoutGraphProps) {
  if (latest && !isFinished(latest.state)) return null;
  return (
    <>
      {latest?.state === "failed" && <LastInspectionFailed job={latest} />}
      <NotInspected model={model} choice={choice} again={latest?.state === "failed"} />
    </>
  );
}
