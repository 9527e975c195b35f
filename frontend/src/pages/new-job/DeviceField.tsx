import { Group, Select, Text } from "@mantine/core";

import type { Device } from "@/api/types";
import { groupDevices } from "@/lib/deviceFacts";

import type { FormProps } from "./form";
import { onDevice } from "./values";

/** The devices that are measured on first, then what is simulated, each with what it is. */
export function DeviceField({ form, devices }: FormProps & { devices: readonly Device[] }) {
  const byName = new Map(devices.map((device) => [device.name, device]));
  const { measured, simulated } = groupDevices(devices);
  const items = (group: readonly Device[]) =>
    group.map(({ name, online }) => ({
      value: name,
      label: online ? name : `${name} (offline: the job waits for it)`,
    }));
  return (
    <Select
      label="Device"
      searchable={devices.length > 8}
      nothingFoundMessage="No such device"
      data={[
        { group: "Measured", items: items(measured) },
        { group: "Simulated", items: items(simulated) },
      ].filter((group) => group.items.length > 0)}
      comboboxProps={{ width: "max-content", position: "bottom-start" }}
      maxDropdownHeight={420}
      renderOption={({ option }) => (
        <Option label={option.label} description={byName.get(option.value)?.description ?? ""} />
      )}
      data-testid="new-job-device"
      {...form.getInputProps("device")}
      onChange={(name) => form.setValues(onDevice(form.values, byName.get(name ?? "")))}
    />
  );
}

function Option({ label, description }: { label: string; description: string }) {
  return (
    <Group gap={0} maw="min(480px, calc(100vw - 64px))">
      <div>
        <Text size="sm">{label}</Text>
        <Text size="xs" c="dimmed">
          {description}
        </Text>
      </div>
    </Group>
  );
}
