import { Alert, Button, List, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";

import { asProblem, type FieldError } from "@/api/problem";

interface ErrorNoticeProps {
  error: unknown;
  /** What could not be done; the problem's own title if not given. */
  title?: string;
  /** The field errors to list; all of the problem's if not given. */
  fields?: readonly FieldError[];
  onRetry?: () => void;
  onClose?: () => void;
}

/** What went wrong, in the API's words. */
export function ErrorNotice({ error, title, fields, onRetry, onClose }: ErrorNoticeProps) {
  const problem = asProblem(error);
  // The detail often says already what a field's message says.
  const listed = (fields ?? problem.errors).filter(
    ({ message }) => !problem.detail.includes(message),
  );
  return (
    <Alert
      role="alert"
      color="red"
      variant="light"
      title={title ?? problem.title}
      icon={<IconAlertTriangle />}
      {...(onClose ? { withCloseButton: true, onClose, closeButtonLabel: "Dismiss" } : {})}
    >
      <Text size="sm" style={{ overflowWrap: "anywhere" }}>
        {problem.detail}
      </Text>
      {listed.length > 0 && (
        <List size="sm" mt={4}>
          {listed.map(({ field, message }) => (
            <List.Item key={`${field} ${message}`}>
              <b>{field}</b>: {message}
            </List.Item>
          ))}
        </List>
      )}
      {onRetry && (
        <Button mt="sm" size="xs" variant="default" onClick={onRetry}>
          Try again
        </Button>
      )}
    </Alert>
  );
}
