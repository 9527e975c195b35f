import { Checkbox, SimpleGrid } from "@mantine/core";

import { schedulerName } from "@/lib/format";

import type { FormProps } from "./form";
import { SCHEDULER_NOTES } from "./schedulers";
import classes from "./SchedulerField.module.css";

export function SchedulerField({ form, offered }: FormProps & { offered: readonly string[] }) {
  return (
    <Checkbox.Group
      label="Schedulers"
      {...form.getInputProps("schedulers")}
      data-testid="new-job-schedulers"
    >
      <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="xs" my={6}>
        {offered.map((name) => (
          <Checkbox
            key={name}
            className={classes.card}
            size="sm"
            value={name}
            label={schedulerName(name)}
            description={SCHEDULER_NOTES[name]}
          />
        ))}
      </SimpleGrid>
    </Checkbox.Group>
  );
}
