import { Fieldset, Switch } from "@mantine/core";

import { runs } from "@/lib/auto";

import type { FormProps } from "./form";

/** How Opara decides; of no use without it. */
export function OparaFields({ form }: FormProps) {
  const chosen = runs(form.values.schedulers, "opara");
  return (
    <Fieldset
      legend={chosen ? "Opara" : "Opara, which is not among the schedulers"}
      mt="md"
      disabled={!chosen}
      data-testid="new-job-opara"
    >
      <Switch
        label="As published"
        description="Classes by a table of operators, demands of one thread block, as many streams as it wants. Needs a GPU, real or simulated."
        data-testid="new-job-opara-strict"
        {...form.getInputProps("oparaStrict", { type: "checkbox" })}
      />
    </Fieldset>
  );
}
