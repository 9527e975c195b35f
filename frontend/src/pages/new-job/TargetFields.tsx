import { NumberInput, Select, SimpleGrid, Stack, TextInput } from "@mantine/core";

import type { Device } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";

import { DeviceField } from "./DeviceField";
import type { FormProps } from "./form";
import { NoKernels, ProgramsField, ProgramSource, WorkloadField } from "./KernelTarget";
import { PurposeField } from "./PurposeField";
import { SequenceLength } from "./SearchFields";
import { useModelOptions } from "./useModelOptions";
import { ofModel } from "./values";

/** Of what, on which device, under which name. */
export function TargetFields({ form, devices }: FormProps & { devices: readonly Device[] }) {
  const { values } = form;
  const kernels = values.purpose === "kernels";
  const device = devices.find(({ name }) => name === values.device);
  return (
    <Stack gap="md">
      <PurposeField form={form} />
      {kernels && <ProgramSource form={form} />}
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md">
        {ofModel(values) ? (
          <ModelField form={form} />
        ) : (
          <>
            <WorkloadField form={form} offer={device?.capabilities.kernels ?? null} />
            <ProgramsField form={form} offer={device?.capabilities.kernels ?? null} />
          </>
        )}
        <DeviceField form={form} devices={devices} />
        <TextInput
          label="Name"
          description={`Optional; the ${ofModel(values) ? "model's" : "workload's"} name otherwise`}
          inputWrapperOrder={["label", "input", "description", "error"]}
          maxLength={200}
          {...form.getInputProps("name")}
        />
        {kernels && ofModel(values) && <ModelSizes form={form} />}
      </SimpleGrid>
      {kernels && <NoKernels device={device} />}
    </Stack>
  );
}

function ModelField({ form }: FormProps) {
  const models = useModelOptions(form.values.model || undefined);
  return (
    <>
      {models.error && <ErrorNotice error={models.error} />}
      <Select
        label="Model"
        placeholder={models.isPending ? "Loading" : "Choose a model"}
        searchable
        nothingFoundMessage="No such model"
        data={models.groups}
        data-testid="new-job-model"
        {...form.getInputProps("model")}
      />
    </>
  );
}

/** What a model's programs depend on beside the model; a job for schedules has a list of batches. */
function ModelSizes({ form }: FormProps) {
  return (
    <>
      <NumberInput
        label="Model's batch size"
        description="The programs have their sizes from it"
        allowDecimal={false}
        allowNegative={false}
        hideControls
        data-testid="new-job-model-batch"
        {...form.getInputProps("modelBatch")}
      />
      <SequenceLength form={form} />
    </>
  );
}
