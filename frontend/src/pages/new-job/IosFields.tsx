import { Fieldset, NumberInput, Select, SimpleGrid } from "@mantine/core";

import { runs } from "@/lib/auto";
import { SEARCH_MODES, STRATEGIES, THREADS } from "@/lib/iosOptions";

import type { FormProps } from "./form";

const choices = (of: Record<string, { label: string }>) =>
  Object.entries(of).map(([value, { label }]) => ({ value, label }));

/** What IOS searches and how; of no use without it. */
export function IosFields({ form }: FormProps) {
  const { schedulers, searchMode, strategies, threads } = form.values;
  const chosen = runs(schedulers, "ios");
  return (
    <Fieldset
      legend={chosen ? "IOS" : "IOS, which is not among the schedulers"}
      mt="md"
      disabled={!chosen}
      data-testid="new-job-ios"
    >
      <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="md">
        <Select
          label="Search"
          description={SEARCH_MODES[searchMode].note}
          data={choices(SEARCH_MODES)}
          allowDeselect={false}
          data-testid="new-job-search-mode"
          {...form.getInputProps("searchMode")}
        />
        <Select
          label="A stage runs"
          description={STRATEGIES[strategies].note}
          data={choices(STRATEGIES)}
          allowDeselect={false}
          data-testid="new-job-strategies"
          {...form.getInputProps("strategies")}
        />
        <Select
          label="Threads of a group"
          description={THREADS[threads].note}
          data={choices(THREADS)}
          allowDeselect={false}
          data-testid="new-job-threads"
          {...form.getInputProps("threads")}
        />
        <NumberInput
          label="Gap"
          description={
            searchMode === "exhaustive"
              ? "An exhaustive search ends when everything is measured."
              : "Ends as soon as the best schedule is this close to the lower bound on all."
          }
          suffix=" %"
          step={1}
          disabled={searchMode === "exhaustive"}
          data-testid="new-job-gap"
          {...form.getInputProps("gapPercent")}
        />
        <SimpleGrid cols={2} spacing="md">
          <NumberInput
            label="r"
            description="Units per group at most. More searches more."
            allowDecimal={false}
            {...form.getInputProps("maxUnitsPerGroup")}
          />
          <NumberInput
            label="s"
            description="Groups per stage at most. More searches more."
            allowDecimal={false}
            {...form.getInputProps("maxGroupsPerStage")}
          />
        </SimpleGrid>
      </SimpleGrid>
    </Fieldset>
  );
}
