import { Alert, Button, Code, Paper, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import { useInspect } from "@/api/mutations";
import type { GraphChoice } from "@/api/queries";
import type { Job, Model } from "@/api/types";
import { EmptyState } from "@/components/EmptyState";
import { ErrorNotice } from "@/components/ErrorNotice";
import { JobLink } from "@/components/JobLink";
import { choiceWords } from "@/lib/graphChoice";

interface NotInspectedProps {
  model: Model;
  choice: GraphChoice;
  again: boolean;
}

/** No such graph is known yet; a button has it made. */
export function NotInspected({ model, choice, again }: NotInspectedProps) {
  const inspect = useInspect(model.source);
  return (
    <Paper p={0} data-testid="not-inspected">
      <EmptyState
        title={again ? "There is no graph to show" : `Not inspected at ${choiceWords(choice)}`}
        action={
          <Button
            mt="sm"
            loading={inspect.isPending}
            onClick={() => inspect.mutate(choice)}
            data-testid="inspect"
          >
            {again ? "Inspect again" : "Inspect the model"}
          </Button>
        }
      >
        A worker imports the model in a sandbox and finds its Units, its Blocks and what they cost.
        That takes seconds; nothing is tuned or measured.
      </EmptyState>
      {inspect.isError && <ErrorNotice title="Not started" error={inspect.error} />}
    </Paper>
  );
}

const ADVICE: Record<string, string> = {
  unsupported_operator:
    "Replace the operator in the model, or export the model with an option that decomposes it.",
  unsupported_input: "Export the model with example inputs that are tensors of a fixed shape.",
  unsupported_batch:
    "Choose the batch size that the model was exported for, or export it with a dynamic batch size.",
  malformed: "Export and upload the file again; what was stored cannot be read as a model.",
  too_large: "The model is larger than an import may be; PLAIT_IMPORT_MEMORY_BYTES sets how much.",
  timeout: "Inspect it again, or give imports more time with PLAIT_IMPORT_SECONDS.",
  out_of_memory: "Give imports more memory with PLAIT_IMPORT_MEMORY_BYTES, or choose a smaller batch.",
};

interface LastInspectionFailedProps {
  job: Job;
  /** The graph of an earlier inspection is still there. */
  kept?: boolean;
}

/** Why the inspection failed, at which operator, and what can be done. */
export function LastInspectionFailed({ job, kept = false }: LastInspectionFailedProps) {
  const { problem } = job;
  const advice = ADVICE[problem?.kind ?? ""];
  return (
    <Alert
      color="red"
      mb="md"
      icon={<IconAlertTriangle />}
      title={`The last inspection failed: ${(problem?.kind ?? "unknown").replaceAll("_", " ")}`}
      data-testid="inspection-problem"
    >
      <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        {problem?.detail}
      </Text>
      {problem?.operator && (
        <Text size="sm" mt={4}>
          Operator: <Code>{problem.operator}</Code>
        </Text>
      )}
      {advice && (
        <Text size="sm" mt={4}>
          {advice}
        </Text>
      )}
      <Text size="sm" mt={4}>
        {kept && "What is shown is what an earlier inspection found. "}
        <JobLink id={job.id}>Log of the inspection</JobLink>
      </Text>
    </Alert>
  );
}
