import { Box, Select, SimpleGrid, Switch } from "@mantine/core";

import type { Device } from "@/api/types";
import { isSimulated } from "@/lib/deviceFacts";
import { providerLabel } from "@/lib/providers";

import type { FormProps } from "./form";

/** Whose kernels run, and how strict the measuring is; only what the device leaves to choose. */
export function MeasuringFields({ form, device }: FormProps & { device: Device | undefined }) {
  const providers = device?.capabilities.providers ?? [];
  const measured = device !== undefined && !isSimulated(device);
  if (providers.length < 2 && !measured) return null;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md">
      {providers.length > 1 && (
        <Select
          label="Kernels"
          description="Who implements the operators"
          data={providers.map((name) => ({ value: name, label: providerLabel(name) }))}
          data-testid="new-job-provider"
          {...form.getInputProps("provider")}
        />
      )}
      {measured && (
        <Box mt={{ base: 0, sm: providers.length > 1 ? 24 : 0 }}>
          <NoiseSwitch form={form} />
        </Box>
      )}
    </SimpleGrid>
  );
}

export function NoiseSwitch({ form }: FormProps) {
  return (
    <Switch
      label="Measure even if the machine is busy"
      description="The results say so. Otherwise the job waits a while for quiet, then fails."
      data-testid="new-job-allow-noise"
      {...form.getInputProps("allowNoise", { type: "checkbox" })}
    />
  );
}
