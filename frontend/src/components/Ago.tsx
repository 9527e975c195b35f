import { Text, Tooltip } from "@mantine/core";

import { ago, dateTime } from "@/lib/format";
import { useNow } from "@/lib/useNow";

/** How long ago, with the exact time on hover. */
export function Ago({ at }: { at: string }) {
  const now = useNow(10_000);
  return (
    <Tooltip label={dateTime(at)}>
      <Text component="time" inherit dateTime={at} style={{ whiteSpace: "nowrap" }}>
        {ago(new Date(at), now)}
      </Text>
    </Tooltip>
  );
}
