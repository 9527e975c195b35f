import { Select, SimpleGrid, TextInput } from "@mantine/core";

import type { Device } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";

import { DeviceField } from "./DeviceField";
import type { FormProps } from "./form";
import { useModelOptions } from "./useModelOptions";

/** Which model, on which device, under which name. */
export function TargetFields({ form, devices }: FormProps & { devices: readonly Device[] }) {
  const models = useModelOptions(form.values.model || undefined);
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md">
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
      <DeviceField form={form} devices={devices} />
      <TextInput
        label="Name"
        description="Optional; the model's name otherwise"
        inputWrapperOrder={["label", "input", "description", "error"]}
        maxLength={200}
        {...form.getInputProps("name")}
      />
    </SimpleGrid>
  );
}
