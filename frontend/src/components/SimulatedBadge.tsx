import { Badge, Tooltip } from "@mantine/core";

/** Stands beside every figure that no real device has shown. */
export function SimulatedBadge() {
  return (
    <Tooltip label="Taken on a simulated device, not measured">
      <Badge color="yellow" size="sm" tt="none" maw="none" flex="none">
        simulated
      </Badge>
    </Tooltip>
  );
}
