import { NumberInput, SimpleGrid, TagsInput } from "@mantine/core";

import type { FormProps } from "./form";

export function SearchFields({ form }: FormProps) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="md">
      <TagsInput
        label="Batch sizes"
        description="Each is tuned on its own"
        placeholder="Add one, then Enter"
        splitChars={[",", " ", ";"]}
        data={["1", "4", "8", "16", "32", "64"]}
        acceptValueOnBlur
        clearable
        data-testid="new-job-batch-sizes"
        {...form.getInputProps("batchSizes")}
      />
      <SequenceLength form={form} />
      <NumberInput
        label="Budget"
        description="Time to search, for each batch size"
        suffix=" s"
        step={60}
        hideControls
        data-testid="new-job-budget"
        {...form.getInputProps("budgetSeconds")}
      />
    </SimpleGrid>
  );
}

export function SequenceLength({ form }: FormProps) {
  return (
    <NumberInput
      label="Sequence length"
      description="Of what the model leaves open besides the batch"
      placeholder="As exported"
      allowDecimal={false}
      hideControls
      data-testid="new-job-sequence-length"
      {...form.getInputProps("sequenceLength")}
    />
  );
}
