import { Button, Grid, Group, Stack } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { useCreateJob } from "@/api/mutations";
import { ApiProblem, errorsByField, type FieldError } from "@/api/problem";
import type { Device } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";
import { Panel } from "@/components/Panel";

import { AdvancedFields } from "./AdvancedFields";
import { DevicePanel } from "./DevicePanel";
import { KernelFields } from "./KernelFields";
import { MeasuringFields } from "./MeasuringFields";
import { SchedulerField } from "./SchedulerField";
import { SearchFields } from "./SearchFields";
import { TargetFields } from "./TargetFields";
import {
  inForm,
  invalid,
  isAdvanced,
  placeOf,
  request,
  REQUEST_FIELDS,
  startingValues,
} from "./values";

interface JobFormProps {
  model: string | undefined;
  devices: readonly Device[];
}

export function JobForm({ model, devices }: JobFormProps) {
  const navigate = useNavigate();
  const create = useCreateJob();
  const [advanced, setAdvanced] = useState(false);
  const [unplaced, setUnplaced] = useState<readonly FieldError[] | null>(null);
  const form = useForm({ initialValues: startingValues(model, devices), validate: invalid });
  const device = devices.find(({ name }) => name === form.values.device);

  const showErrors = (errors: Record<string, unknown>) => {
    if (Object.keys(errors).some(isAdvanced)) setAdvanced(true);
  };

  /** Each error goes to its field; the notice is for what has none. */
  const refuse = (error: unknown) => {
    if (!(error instanceof ApiProblem)) return setUnplaced([]);
    const { byField, rest } = errorsByField(error, REQUEST_FIELDS);
    const errors = Object.fromEntries(
      REQUEST_FIELDS.flatMap((field) => {
        const message = byField[field];
        return message ? [[placeOf(field, form.values), inForm(field, message)]] : [];
      }),
    );
    form.setErrors(errors);
    showErrors(errors);
    setUnplaced(Object.keys(errors).length > 0 && rest.length === 0 ? null : rest);
  };

  const submit = form.onSubmit(async (values) => {
    setUnplaced(null);
    try {
      const job = await create.mutateAsync(request(values));
      await navigate({ to: "/jobs/$jobId", params: { jobId: job.id } });
    } catch (error) {
      refuse(error);
    }
  }, showErrors);

  return (
    <form onSubmit={submit} noValidate>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 8 }}>
          <Stack gap="md">
            <Panel title="What">
              <TargetFields form={form} devices={devices} />
            </Panel>
            <Panel title="How">
              <Stack gap="md">
                {form.values.purpose === "kernels" ? (
                  <KernelFields form={form} offer={device?.capabilities.kernels ?? null} />
                ) : (
                  <>
                    <SchedulerField form={form} offered={device?.capabilities.schedulers ?? []} />
                    <SearchFields form={form} />
                    <MeasuringFields form={form} device={device} />
                  </>
                )}
                <AdvancedFields form={form} opened={advanced} onToggle={setAdvanced} />
              </Stack>
            </Panel>
            {create.isError && unplaced !== null && (
              <ErrorNotice
                title="The job was not started"
                error={create.error}
                fields={unplaced}
              />
            )}
            <Group>
              <Button type="submit" loading={create.isPending} data-testid="new-job-submit">
                Start the job
              </Button>
            </Group>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 4 }}>
          {device && <DevicePanel device={device} values={form.values} />}
        </Grid.Col>
      </Grid>
    </form>
  );
}
