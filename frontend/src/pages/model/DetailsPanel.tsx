import { ActionIcon, Anchor, Button, Group, Text } from "@mantine/core";
import { IconX } from "@tabler/icons-react";

import type { GraphFacts, TensorFacts } from "@/api/types";
import { Facts } from "@/components/Facts";
import { Panel } from "@/components/Panel";
import { bytes, count, percent, quantity } from "@/lib/format";
import { isCollapsible } from "@/lib/graph/scene";
import { operatorNames } from "@/lib/graph/unitTable";
import { blockTitle, countCells, shapeWords } from "@/lib/graph/words";

import type { Selection, Target } from "./selection";

interface DetailsPanelProps {
  facts: GraphFacts;
  predecessors: readonly (readonly number[])[];
  selection: Selection;
  collapsed: ReadonlySet<number>;
  onGoTo: (target: Target) => void;
  onToggle: (block: number) => void;
  onClear: () => void;
}

/** The Unit or the Block that is chosen; the graph's inputs and outputs if none is. */
export function DetailsPanel(props: DetailsPanelProps) {
  const { selection } = props;
  if (selection === null) return <GraphEnds facts={props.facts} />;
  if ("unit" in selection) return <UnitDetails {...props} position={selection.unit} />;
  return <BlockDetails {...props} index={selection.block} />;
}

function GraphEnds({ facts }: { facts: GraphFacts }) {
  return (
    <Panel title="Inputs and outputs">
      <Tensors title="Inputs" tensors={facts.inputs} />
      <Tensors title="Outputs" tensors={facts.outputs} />
      <Text size="xs" c="dimmed" mt="sm">
        Choose a unit or a block, in the graph or in a table, to see what is known of it.
      </Text>
    </Panel>
  );
}

function Tensors({ title, tensors }: { title: string; tensors: readonly TensorFacts[] }) {
  return (
    <>
      <Text size="xs" fw={600} c="dimmed" mt={4}>
        {title}
      </Text>
      {tensors.map((tensor) => (
        <div key={tensor.name} style={{ overflowWrap: "anywhere" }}>
          <Text size="sm" span ff="monospace">
            {tensor.name}
          </Text>{" "}
          <Text size="sm" span c="dimmed">
            {shapeWords(tensor)}
          </Text>
        </div>
      ))}
    </>
  );
}

function CloseButton({ onClear }: { onClear: () => void }) {
  return (
    <ActionIcon variant="subtle" color="gray" aria-label="Choose nothing" onClick={onClear}>
      <IconX size={16} />
    </ActionIcon>
  );
}

function UnitDetails({ facts, position, ...props }: DetailsPanelProps & { position: number }) {
  const unit = facts.units[position];
  if (!unit) return null;
  const share = facts.totals.flops > 0 ? unit.flops / facts.totals.flops : 0;
  return (
    <div data-testid="unit-details">
      <Panel title="Unit" note={`#${position}`} actions={<CloseButton onClear={props.onClear} />}>
        <Text fw={600} mb={6} style={{ overflowWrap: "anywhere" }} data-testid="unit-name">
          {unit.name}
        </Text>
        <Facts
          facts={[
            ["Kind", unit.kind],
            ["Operators", operatorNames(unit)],
            ["FLOPs", `${quantity(unit.flops).trim()}, ${percent(share)} of all`],
            ["Bytes moved", bytes(unit.bytes_moved)],
            ["Intensity", `${unit.intensity.toFixed(1)} FLOPs/B`],
            ["Parameters", count(unit.parameters)],
            ["Output", unit.outputs.map(shapeWords).join("; ")],
            [
              "Block",
              <Anchor
                key="block"
                component="button"
                size="sm"
                onClick={() => props.onGoTo({ block: unit.block })}
              >
                {blockTitle(unit.block)}
              </Anchor>,
            ],
            ["Reads from", unitLinks(facts, props.predecessors[position] ?? [], props.onGoTo)],
            ["Read by", unitLinks(facts, unit.successors, props.onGoTo)],
          ]}
        />
      </Panel>
    </div>
  );
}

/** More neighbours than this are only counted. */
const LINKS = 12;

function unitLinks(
  facts: GraphFacts,
  positions: readonly number[],
  onGoTo: (target: Target) => void,
) {
  if (positions.length === 0) return null;
  return (
    <>
      {positions.slice(0, LINKS).map((position) => (
        <Anchor
          key={position}
          component="button"
          size="sm"
          display="block"
          ta="left"
          style={{ overflowWrap: "anywhere" }}
          onClick={() => onGoTo({ unit: position })}
        >
          {facts.units[position]?.name}
        </Anchor>
      ))}
      {positions.length > LINKS && `and ${positions.length - LINKS} more`}
    </>
  );
}

function BlockDetails({ facts, index, ...props }: DetailsPanelProps & { index: number }) {
  const block = facts.blocks[index];
  if (!block) return null;
  const units = facts.units.slice(block.first, block.first + block.n);
  const flops = units.reduce((sum, unit) => sum + unit.flops, 0);
  const paper = countCells(block.counts.paper);
  return (
    <div data-testid="block-details">
      <Panel
        title={blockTitle(index)}
        note={`of ${facts.blocks.length}`}
        actions={<CloseButton onClear={props.onClear} />}
      >
        <Facts
          facts={[
            ["Units n", count(block.n)],
            ["Width d", count(block.width)],
            ["FLOPs", `${quantity(flops).trim()}, ${percent(flops / Math.max(facts.totals.flops, 1))} of all`],
            ["Transitions", typeof paper === "string" ? paper : paper.transitions],
            ["Schedules", typeof paper === "string" ? null : paper.schedules],
            [
              "Like",
              block.equal_to === null ? null : (
                <Anchor
                  key="like"
                  component="button"
                  size="sm"
                  onClick={() => props.onGoTo({ block: block.equal_to ?? index })}
                >
                  {blockTitle(block.equal_to)}
                </Anchor>
              ),
            ],
            ["First unit", unitLinks(facts, [block.first], props.onGoTo)],
          ]}
        />
        {isCollapsible(block) && (
          <Group mt="sm">
            <Button
              size="xs"
              variant="default"
              onClick={() => props.onToggle(index)}
              data-testid="toggle-block"
            >
              {props.collapsed.has(index) ? "Expand" : "Collapse"}
            </Button>
          </Group>
        )}
      </Panel>
    </div>
  );
}
