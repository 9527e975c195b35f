import { Button, Checkbox, Group, NumberInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";

import { useCreateToken } from "@/api/mutations";
import { asProblem, errorsByField } from "@/api/problem";
import type { Scope, TokenCreated } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";

const SCOPES: readonly { scope: Scope; note: string }[] = [
  { scope: "read", note: "see jobs, results and devices" },
  { scope: "write", note: "start, cancel and retry jobs; includes read" },
  { scope: "upload", note: "store model files that are only data" },
  {
    scope: "upload:trusted",
    note: "also .pt2 and TorchScript files, which execute code when a worker loads them",
  },
  { scope: "admin", note: "everything, tokens included" },
];

interface Values {
  name: string;
  scopes: string[];
  days: number | string;
}

const DAYS = 90;

export function TokenForm({ onCreated }: { onCreated: (token: TokenCreated) => void }) {
  const create = useCreateToken();
  const form = useForm<Values>({
    initialValues: { name: "", scopes: ["read", "write"], days: DAYS },
  });

  const submit = form.onSubmit(async ({ name, scopes, days }) => {
    try {
      onCreated(
        await create.mutateAsync({
          name,
          scopes: scopes as Scope[],
          expires_in_days: days === "" ? null : Number(days),
        }),
      );
    } catch (error) {
      const { byField } = errorsByField(asProblem(error), ["name", "scopes", "expires_in_days"]);
      const { expires_in_days: expiry, ...rest } = byField;
      form.setErrors({ ...rest, ...(expiry ? { days: expiry } : {}) });
    }
  });

  return (
    <form onSubmit={submit} noValidate>
      <Stack gap="md">
        <TextInput
          label="Name"
          placeholder="ci"
          data-autofocus
          maxLength={100}
          {...form.getInputProps("name")}
        />
        <Checkbox.Group label="Scopes" {...form.getInputProps("scopes")}>
          <Stack gap="xs" my={6}>
            {SCOPES.map(({ scope, note }) => (
              <Checkbox key={scope} size="sm" value={scope} label={scope} description={note} />
            ))}
          </Stack>
        </Checkbox.Group>
        <NumberInput
          label="Expires after"
          description="Leave empty for a token that does not expire"
          suffix=" days"
          allowDecimal={false}
          {...form.getInputProps("days")}
        />
        {create.isError && Object.keys(form.errors).length === 0 && (
          <ErrorNotice error={create.error} />
        )}
        <Group justify="flex-end">
          <Button type="submit" loading={create.isPending}>
            Create
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
