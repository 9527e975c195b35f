import { NumberInput, Select, SimpleGrid } from "@mantine/core";

import type { KernelOffer } from "@/api/types";
import { type MeasurerKind, MEASURERS } from "@/lib/measurers";

import type { FormProps } from "./form";
import { NoiseSwitch } from "./MeasuringFields";

const DEGREES: Record<MeasurerKind, string> = {
  doppler: "At most so many candidates at once",
  naive: "So many candidates at once",
  serial: "Serial measures one at a time",
};

/** How kernels are tuned: who proposes candidates, how they are measured, and how many. */
export function KernelFields({ form, offer }: FormProps & { offer: KernelOffer | null }) {
  const { measurer, tuner } = form.values;
  const tuners = offer?.tuners ?? [];
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="md">
        <Select
          label="Tuner"
          description={tuners.find(({ name }) => name === tuner)?.description ?? "Proposes candidates"}
          data={tuners.map(({ name, title }) => ({ value: name, label: title }))}
          disabled={tuners.length === 0}
          data-testid="new-job-tuner"
          {...form.getInputProps("tuner")}
        />
        <Select
          label="Measurer"
          description={MEASURERS[measurer].note}
          data={Object.entries(MEASURERS).map(([value, { label }]) => ({ value, label }))}
          data-testid="new-job-measurer"
          {...form.getInputProps("measurer")}
        />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }} spacing="md">
        <NumberInput
          label="Trials"
          description="Of all programs together"
          allowDecimal={false}
          allowNegative={false}
          thousandSeparator=","
          hideControls
          data-testid="new-job-trials"
          {...form.getInputProps("trials")}
        />
        <NumberInput
          label="Batch size"
          description="Candidates proposed at once"
          allowDecimal={false}
          allowNegative={false}
          hideControls
          data-testid="new-job-kernel-batch"
          {...form.getInputProps("proposed")}
        />
        <NumberInput
          label="Degree of parallelism"
          description={DEGREES[measurer]}
          placeholder={measurer === "serial" ? "1" : "One per core"}
          disabled={measurer === "serial"}
          allowDecimal={false}
          allowNegative={false}
          hideControls
          data-testid="new-job-degree"
          {...form.getInputProps("degree")}
        />
        <NumberInput
          label="Budget"
          description="Time to tune"
          suffix=" s"
          step={60}
          hideControls
          data-testid="new-job-budget"
          {...form.getInputProps("budgetSeconds")}
        />
      </SimpleGrid>
      {offer && <NoiseSwitch form={form} />}
    </>
  );
}
