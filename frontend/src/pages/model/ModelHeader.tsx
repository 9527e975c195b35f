import { Button, Code, Group, NumberInput, Select } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type KeyboardEvent, useState } from "react";

import type { GraphChoice } from "@/api/queries";
import type { Granularity, Model } from "@/api/types";
import { PageHeader } from "@/components/PageHeader";
import { GRANULARITIES } from "@/lib/granularities";
import { type GraphSearch, MAX_BATCH, MAX_LENGTH, parseGraphSearch } from "@/lib/graphChoice";

const route = getRouteApi("/models/$model");

export function ModelHeader({ model, choice }: { model: Model; choice: GraphChoice }) {
  const navigate = route.useNavigate();
  const go = (change: Partial<Record<keyof GraphSearch, unknown>>) =>
    void navigate({
      search: (before) => parseGraphSearch({ ...before, ...change }),
      resetScroll: false,
    });
  return (
    <PageHeader
      title={model.name}
      description={
        <>
          {model.kind === "zoo" ? "A network of the zoo" : "An upload"} · <Code>{model.source}</Code>
        </>
      }
      actions={
        <Group gap="xs" align="flex-end">
          <NumberField
            key={`batch ${choice.batch_size}`}
            label="Batch size"
            value={choice.batch_size}
            most={MAX_BATCH}
            width={92}
            onApply={(batch) => go({ batch })}
            testId="graph-batch"
          />
          <NumberField
            key={`length ${choice.sequence_length}`}
            label="Sequence length"
            placeholder="the model's"
            value={choice.sequence_length}
            most={MAX_LENGTH}
            width={126}
            optional
            onApply={(length) => go({ length })}
            testId="graph-length"
          />
          <GranularityField
            granularity={choice.granularity}
            onApply={(granularity) => go({ granularity })}
          />
          <Button
            size="xs"
            renderRoot={(props) => (
              <Link to="/jobs/new" search={{ model: model.source }} {...props} />
            )}
          >
            New job
          </Button>
        </Group>
      }
    />
  );
}

interface NumberFieldProps {
  label: string;
  placeholder?: string;
  /** Unset is the model's own, where the field may be empty. */
  value: number | undefined;
  most: number;
  width: number;
  optional?: boolean;
  onApply: (value: number | undefined) => void;
  testId: string;
}

/** Another number is another graph: it is looked up once the number is complete. */
function NumberField({ value, optional = false, ...props }: NumberFieldProps) {
  const [typed, setTyped] = useState<number | string>(value ?? "");
  const apply = () => {
    const next = typeof typed === "number" ? typed : undefined;
    if (next === undefined && !optional) setTyped(value ?? "");
    else if (next !== value) props.onApply(next);
  };
  return (
    <NumberInput
      label={props.label}
      placeholder={props.placeholder}
      size="xs"
      w={props.width}
      min={1}
      max={props.most}
      clampBehavior="strict"
      allowDecimal={false}
      value={typed}
      onChange={setTyped}
      onBlur={apply}
      onKeyDown={(event: KeyboardEvent) => event.key === "Enter" && apply()}
      data-testid={props.testId}
    />
  );
}

interface GranularityFieldProps {
  granularity: Granularity;
  onApply: (granularity: Granularity) => void;
}

function GranularityField({ granularity, onApply }: GranularityFieldProps) {
  return (
    <Select
      label="One unit is"
      size="xs"
      w={158}
      data={Object.entries(GRANULARITIES).map(([value, { label }]) => ({ value, label }))}
      value={granularity}
      onChange={(value) => onApply(value as Granularity)}
      data-testid="graph-granularity"
    />
  );
}
