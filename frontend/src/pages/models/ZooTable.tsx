import { Button, Table, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { ZooModel } from "@/api/types";
import { ModelLink } from "@/components/ModelLink";

export function ZooTable({ models }: { models: readonly ZooModel[] }) {
  return (
    <Table.ScrollContainer minWidth={300} type="native">
      <Table highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Model</Table.Th>
            <Table.Th>Devices</Table.Th>
            <Table.Th aria-label="Actions" />
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {models.map((model) => (
            <Table.Tr key={model.source} data-testid="zoo-row">
              <Table.Td>
                <ModelLink source={model.source}>{model.name}</ModelLink>
              </Table.Td>
              <Table.Td>
                <Text size="sm" c="dimmed">
                  {model.devices.join(", ")}
                </Text>
              </Table.Td>
              <Table.Td ta="right">
                <Button
                  size="compact-xs"
                  variant="light"
                  renderRoot={(props) => (
                    <Link to="/jobs/new" search={{ model: model.source }} {...props} />
                  )}
                >
                  New job
                </Button>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
