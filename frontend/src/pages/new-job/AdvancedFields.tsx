import { Button, Collapse, NumberInput, Select, SimpleGrid } from "@mantine/core";
import { IconChevronDown, IconChevronRight } from "@tabler/icons-react";

import { GRANULARITIES } from "@/lib/granularities";
import { STAGE_MEASURERS } from "@/lib/measurers";

import type { FormProps } from "./form";
import { IosFields } from "./IosFields";
import { KernelAdvanced } from "./KernelAdvanced";
import { OparaFields } from "./OparaFields";

interface AdvancedFieldsProps extends FormProps {
  opened: boolean;
  onToggle: (opened: boolean) => void;
}

export function AdvancedFields({ form, opened, onToggle }: AdvancedFieldsProps) {
  const Chevron = opened ? IconChevronDown : IconChevronRight;
  return (
    <div>
      <Button
        variant="subtle"
        color="gray"
        size="compact-sm"
        leftSection={<Chevron size={14} />}
        aria-expanded={opened}
        onClick={() => onToggle(!opened)}
      >
        Advanced
      </Button>
      <Collapse expanded={opened}>
        {form.values.purpose === "kernels" ? (
          <KernelAdvanced form={form} />
        ) : (
          <ScheduleAdvanced form={form} />
        )}
      </Collapse>
    </div>
  );
}

function ScheduleAdvanced({ form }: FormProps) {
  return (
    <>
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="md" mt="xs">
        <Select
          label="Granularity"
          description={GRANULARITIES[form.values.granularity].note}
          data={Object.entries(GRANULARITIES).map(([value, { label }]) => ({ value, label }))}
          allowDeselect={false}
          data-testid="new-job-granularity"
          {...form.getInputProps("granularity")}
        />
        <Select
          label="Stages are measured"
          description={STAGE_MEASURERS[form.values.stageMeasurer].note}
          data={Object.entries(STAGE_MEASURERS).map(([value, { label }]) => ({ value, label }))}
          data-testid="new-job-stage-measurer"
          {...form.getInputProps("stageMeasurer")}
        />
        <NumberInput
          label="Seed"
          description="Of the random inputs that the schedules are measured and verified with."
          allowDecimal={false}
          {...form.getInputProps("seed")}
        />
      </SimpleGrid>
      <IosFields form={form} />
      <OparaFields form={form} />
    </>
  );
}
