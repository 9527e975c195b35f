import type { Device } from "@/api/types";
import { factLines } from "@/lib/deviceFacts";

import { Facts } from "./Facts";

export function DeviceFacts({ facts }: { facts: Device["facts"] }) {
  return <Facts facts={factLines(facts)} />;
}
