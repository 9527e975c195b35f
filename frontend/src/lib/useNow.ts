import { useInterval } from "@mantine/hooks";
import { useState } from "react";

/** The time, renewed every `milliseconds`. */
export function useNow(milliseconds: number): Date {
  const [now, setNow] = useState(() => new Date());
  useInterval(() => setNow(new Date()), milliseconds, { autoInvoke: true });
  return now;
}
