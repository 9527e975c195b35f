import { Select, SimpleGrid, TextInput } from "@mantine/core";

import type { Device } from "@/api/types";
import { ErrorNotice } from "@/components/ErrorNotice";

import type { FormProps } from "./form";
import { useModelOptions } from "./useModelOptions";

/** Which model, on which device, under which name. */
export function TargetFields({ form, devices }: FormProps & { devices: readonly Device[] }) {
  const models = useModelOptions(form.values.model || undefined);
  const changeDevice = (name: string | null) => {
    const offered = devices.find((device) => device.name === name)?.capabilities.schedulers ?? [];
    form.setFieldValue("device", name ?? "");
    form.setFieldValue(
      "schedulers",
      form.values.schedulers.filter((scheduler) => offered.includes(scheduler)),
    );
  };
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
      <Select
        label="Device"
        data={devices.map(({ name, online }) => ({
          value: name,
          label: online ? name : `${name} (offline: the job waits for it)`,
        }))}
        data-testid="new-job-device"
        {...form.getInputProps("device")}
        onChange={changeDevice}
      />
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
