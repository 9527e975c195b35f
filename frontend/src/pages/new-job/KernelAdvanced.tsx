import { NumberInput, Select, SimpleGrid, Switch } from "@mantine/core";

import { CALIBRATOR_FORMS, HOSTS, REACT_FORMS } from "@/lib/measurers";

import type { FormProps } from "./form";

/** What of tuning kernels is seldom changed. */
export function KernelAdvanced({ form }: FormProps) {
  const { measurer, reactForm, calibrator, hosts } = form.values;
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="md" mt="xs">
      <Select
        label="REACT"
        description={
          measurer === "doppler"
            ? REACT_FORMS[reactForm].note
            : "Adapts the degree of parallelism, which only DOPpler does."
        }
        disabled={measurer !== "doppler"}
        data={Object.entries(REACT_FORMS).map(([value, { label }]) => ({ value, label }))}
        data-testid="new-job-react"
        {...form.getInputProps("reactForm")}
      />
      <Select
        label="Calibrator"
        description={
          measurer === "doppler"
            ? CALIBRATOR_FORMS[calibrator].note
            : "Corrects what was measured beside others, which only DOPpler does."
        }
        disabled={measurer !== "doppler"}
        data={Object.entries(CALIBRATOR_FORMS).map(([value, { label }]) => ({ value, label }))}
        data-testid="new-job-calibrator"
        {...form.getInputProps("calibrator")}
      />
      <Select
        label="Hosts"
        description={HOSTS[hosts].note}
        data={Object.entries(HOSTS).map(([value, { label }]) => ({ value, label }))}
        data-testid="new-job-hosts"
        {...form.getInputProps("hosts")}
      />
      <NumberInput
        label="Seed"
        description="Of the tuner, and of the inputs that kernels are checked with."
        allowDecimal={false}
        {...form.getInputProps("seed")}
      />
      <Switch
        label="Cold caches"
        description="Flushes the caches before every run: for kernels whose inputs come from memory."
        data-testid="new-job-cold"
        {...form.getInputProps("cold", { type: "checkbox" })}
      />
    </SimpleGrid>
  );
}
