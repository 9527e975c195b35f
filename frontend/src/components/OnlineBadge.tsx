import { Badge } from "@mantine/core";

export function OnlineBadge({ online }: { online: boolean }) {
  return (
    <Badge variant="dot" color={online ? "green" : "gray.5"} tt="none">
      {online ? "online" : "offline"}
    </Badge>
  );
}
