import { useEffect, useState } from "react";

import type { GraphFacts } from "@/api/types";
import type { BlockLayout, GraphShape } from "@/lib/graph/layout";

/** The layout of every block, computed in a worker; null until it is there. */
export function useLayouts(facts: GraphFacts): readonly BlockLayout[] | null {
  const [layouts, setLayouts] = useState<readonly BlockLayout[] | null>(null);
  useEffect(() => {
    const worker = new Worker(new URL("../../lib/graph/layout.worker.ts", import.meta.url), {
      type: "module",
    });
    worker.onmessage = (message: MessageEvent<BlockLayout[]>) => setLayouts(message.data);
    const shape: GraphShape = {
      units: facts.units.map(({ block, successors }) => ({ block, successors })),
      blocks: facts.blocks.map(({ first, n }) => ({ first, n })),
    };
    worker.postMessage(shape);
    return () => worker.terminate();
  }, [facts]);
  return layouts;
}
