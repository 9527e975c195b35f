import {
  Alert,
  type ComboboxParsedItem,
  Input,
  MultiSelect,
  SegmentedControl,
  Stack,
  TagsInput,
  Text,
} from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";

import type { Device, KernelOffer } from "@/api/types";
import { isSimulated } from "@/lib/deviceFacts";
import { quantity } from "@/lib/format";

import type { FormProps } from "./form";

/** Where the tensor programs come from. */
export function ProgramSource({ form }: FormProps) {
  return (
    <Input.Wrapper label="Tensor programs" labelElement="div" labelProps={{ id: "program-source" }}>
      <SegmentedControl
        size="xs"
        mt={4}
        display="flex"
        w="fit-content"
        aria-labelledby="program-source"
        data={[
          { value: "model", label: "Of a model" },
          { value: "workloads", label: "By name or sizes" },
        ]}
        {...form.getInputProps("programSource")}
        data-testid="new-job-program-source"
      />
    </Input.Wrapper>
  );
}

/** The programs that have a name, found by name, family or title. */
export function WorkloadField({ form, offer }: FormProps & { offer: KernelOffer | null }) {
  const workloads = offer?.workloads ?? [];
  const byName = new Map(workloads.map((workload) => [workload.name, workload]));
  const families = [...new Set(workloads.map(({ family }) => family))];
  return (
    <MultiSelect
      label="Workloads"
      placeholder={form.values.workloads.length > 0 ? "" : "Choose one or several"}
      searchable
      clearable
      hidePickedOptions
      nothingFoundMessage="No such workload"
      disabled={offer === null}
      data={families.map((family) => ({
        group: offer?.families[family]?.title ?? family,
        items: workloads.filter((each) => each.family === family).map(({ name }) => name),
      }))}
      filter={({ options, search }) => {
        const wanted = search.trim().toLowerCase();
        const matches = (name: string) => {
          const { family = "", title = "" } = byName.get(name) ?? {};
          const group = offer?.families[family]?.title ?? "";
          return [name, family, title, group].some((text) => text.toLowerCase().includes(wanted));
        };
        return options.flatMap((option): ComboboxParsedItem[] => {
          if (!("group" in option)) return matches(option.value) ? [option] : [];
          const items = option.items.filter(({ value }) => matches(value));
          return items.length > 0 ? [{ ...option, items }] : [];
        });
      }}
      renderOption={({ option }) => {
        const workload = byName.get(option.value);
        return (
          <div>
            <Text size="sm">{option.label}</Text>
            {workload && (
              <Text size="xs" c="dimmed" lineClamp={2}>
                {quantity(workload.gflops * 1e9)}FLOPs · {sizeWords(workload.sizes)}
              </Text>
            )}
          </div>
        );
      }}
      maxDropdownHeight={380}
      comboboxProps={{ width: "min(480px, calc(100vw - 48px))", position: "bottom-start" }}
      data-testid="new-job-workloads"
      {...form.getInputProps("workloads")}
    />
  );
}

/** Programs of sizes of one's own, written as on the command line; a family's sizes are shown once
 * its name is begun. */
export function ProgramsField({ form, offer }: FormProps & { offer: KernelOffer | null }) {
  const families = offer?.families ?? {};
  return (
    <TagsInput
      label="Programs of your own"
      description="FAMILY:SIZE=N,SIZE=N and Enter; sizes left out are the family's own"
      inputWrapperOrder={["label", "input", "description", "error"]}
      placeholder={form.values.programs.length > 0 ? "" : "matmul:rows=64,columns=64"}
      splitChars={[";"]}
      acceptValueOnBlur
      clearable
      disabled={offer === null}
      data={Object.keys(families).map((family) => `${family}:`)}
      filter={({ options, search }) => {
        const [wanted = ""] = search.trim().toLowerCase().split(":");
        return options.filter((option) => "value" in option && option.value.includes(wanted));
      }}
      renderOption={({ option }) => {
        const family = families[option.value.replace(":", "")];
        return (
          <div>
            <Text size="sm">{option.value}</Text>
            <Text size="xs" c="dimmed">
              {Object.entries(family?.sizes ?? {})
                .map(([name, size]) => `${name}=${size}`)
                .join(", ")}
            </Text>
          </div>
        );
      }}
      maxDropdownHeight={380}
      comboboxProps={{ width: "min(480px, calc(100vw - 48px))", position: "bottom-start" }}
      data-testid="new-job-programs"
      {...form.getInputProps("programs")}
    />
  );
}

/** What tells a program from others of its family: most sizes of 0 and 1 leave something out. */
const sizeWords = (sizes: Readonly<Record<string, number>>) =>
  Object.entries(sizes)
    .filter(([, size]) => size > 1)
    .map(([name, size]) => `${name.replaceAll("_", " ")} ${size}`)
    .join(", ");

/** Why the chosen device can tune no kernels, and what to do; nothing where it can. */
export function NoKernels({ device }: { device: Device | undefined }) {
  if (device === undefined || device.capabilities.kernels) return null;
  return (
    <Alert
      role="status"
      color="yellow"
      icon={<IconInfoCircle />}
      title={`No kernels can be tuned on ${device.name}`}
      data-testid="new-job-no-kernels"
    >
      {isSimulated(device) ? (
        "A simulated device runs no kernels. Choose one that is measured on."
      ) : (
        <Stack gap={2}>
          <Text size="sm">
            Its worker has no TVM, which builds the kernels. Where the worker runs:{" "}
            <code>pip install &apos;plait[tvm]&apos;</code>, then start it again. This page goes on
            by itself.
          </Text>
        </Stack>
      )}
    </Alert>
  );
}
