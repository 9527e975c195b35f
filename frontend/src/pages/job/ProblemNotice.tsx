import { Alert, Code, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import type { JobProblem } from "@/api/types";

/** Why the job failed, and at which operator. */
export function ProblemNotice({ problem }: { problem: JobProblem }) {
  return (
    <Alert
      color="red"
      title={`Failed: ${problem.kind.replaceAll("_", " ")}`}
      icon={<IconAlertTriangle />}
      data-testid="job-problem"
    >
      <Text size="sm" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
        {problem.detail}
      </Text>
      {problem.operator && (
        <Text size="sm" mt={4}>
          Operator: <Code>{problem.operator}</Code>
        </Text>
      )}
    </Alert>
  );
}
