import { Checkbox, Radio, SimpleGrid, Stack } from "@mantine/core";

import { AUTO, AUTO_LABEL } from "@/lib/auto";
import { schedulerName } from "@/lib/format";

import type { FormProps } from "./form";
import { SCHEDULER_NOTES } from "./schedulers";
import classes from "./SchedulerField.module.css";
import { SINGLES } from "./values";

const SINGLE = "single";

/** Everything that there is, or only the schedulers chosen. */
export function SchedulerField({ form, offered }: FormProps & { offered: readonly string[] }) {
  const auto = form.values.schedulers.includes(AUTO);
  const singles = offered.filter((name) => name !== AUTO);
  const choose = (choice: string) =>
    form.setFieldValue(
      "schedulers",
      choice === AUTO ? [AUTO] : SINGLES.filter((name) => singles.includes(name)),
    );
  return (
    <Stack gap="xs">
      <Radio.Group
        label="Schedulers"
        value={auto ? AUTO : SINGLE}
        onChange={choose}
        error={auto && form.errors["schedulers"]}
        data-testid="new-job-choice"
      >
        <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="xs" mt={6}>
          <Radio
            className={classes.card}
            size="sm"
            value={AUTO}
            disabled={!offered.includes(AUTO)}
            label={AUTO_LABEL}
            description="Every scheduler that applies, combined and refined, with compiled kernels too where the device has them, against eager PyTorch, torch.compile and ONNX Runtime. Uses the whole budget if it needs it."
            data-testid="new-job-auto"
          />
          <Radio
            className={classes.card}
            size="sm"
            value={SINGLE}
            label="Single schedulers"
            description="Only those that you choose, against the sequential baseline. Sooner done."
            data-testid="new-job-single"
          />
        </SimpleGrid>
      </Radio.Group>
      {!auto && (
        <Checkbox.Group
          aria-label="Single schedulers"
          {...form.getInputProps("schedulers")}
          data-testid="new-job-schedulers"
        >
          <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="xs" mb={6}>
            {singles.map((name) => (
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
      )}
    </Stack>
  );
}
