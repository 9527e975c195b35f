import { Badge } from "@mantine/core";

export function OnlineBadge({ online }: { online: boolean }) {
  return (
    <Badge color={online ? "green" : "gray"} tt="none">
      {online ? "online" : "offline"}
    </Badge>
  );
}
