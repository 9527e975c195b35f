import { Radio, SimpleGrid } from "@mantine/core";

import { PURPOSES } from "@/lib/purposes";

import type { FormProps } from "./form";
import classes from "./SchedulerField.module.css";

/** What the job is for; the rest of the form follows from it. */
export function PurposeField({ form }: FormProps) {
  return (
    <Radio.Group label="Purpose" {...form.getInputProps("purpose")} data-testid="new-job-purpose">
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="xs" mt={6}>
        {(["tune", "kernels"] as const).map((purpose) => (
          <Radio
            key={purpose}
            className={classes.card}
            size="sm"
            value={purpose}
            label={PURPOSES[purpose].label}
            description={PURPOSES[purpose].note}
            data-testid={`new-job-purpose-${purpose}`}
          />
        ))}
      </SimpleGrid>
    </Radio.Group>
  );
}
