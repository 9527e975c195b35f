import { Badge, Code, Group, Stack, Text } from "@mantine/core";

import type { Device } from "@/api/types";
import { Ago } from "@/components/Ago";
import { Facts } from "@/components/Facts";
import { OnlineBadge } from "@/components/OnlineBadge";
import { Panel } from "@/components/Panel";
import { factLines } from "@/lib/deviceFacts";
import { providerLabel } from "@/lib/providers";

export function DeviceCard({ device }: { device: Device }) {
  const { schedulers, providers, zoo, formats } = device.capabilities;
  return (
    <Panel
      title={device.name}
      note={device.kind}
      actions={<OnlineBadge online={device.online} />}
    >
      <Stack gap="sm" data-testid="device-card">
        <Text size="sm">{device.description}</Text>
        <Facts
          facts={[
            ...factLines(device.facts),
            ["Kernels", providers.map(providerLabel).join(", ")],
            ["Schedulers", <Names key="schedulers" names={schedulers} />],
            ["Zoo", <Names key="zoo" names={zoo} />],
            ["Formats", <Names key="formats" names={formats} />],
            ["Worker", device.worker],
            ["Fingerprint", <Code key="fingerprint">{device.fingerprint}</Code>],
            ["Last seen", <Ago key="seen" at={device.last_progress_at} />],
          ]}
        />
      </Stack>
    </Panel>
  );
}

function Names({ names }: { names: readonly string[] }) {
  if (names.length === 0) return "none";
  return (
    <Group gap={4}>
      {names.map((name) => (
        <Badge key={name} variant="default" size="sm" tt="none" fw={500}>
          {name}
        </Badge>
      ))}
    </Group>
  );
}
