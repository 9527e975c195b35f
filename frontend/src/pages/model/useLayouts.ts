import { useEffect, useState } from "react";

import type { GraphFacts } from "@/api/types";
import type { BlockLayout, GraphShape } from "@/lib/graph/layout";

export type Layouts = readonly BlockLayout[] | "pending" | "failed";

/** The layout of every block, computed in a worker. */
export function useLayouts(facts: GraphFacts): Layouts {
  const [layouts, setLayouts] = useState<Layouts>("pending");
  useEffect(() => {
    const worker = new Worker(new URL("../../lib/graph/layout.worker.ts", import.meta.url), {
      type: "module",
    });
    worker.onmessage = (message: MessageEvent<BlockLayout[]>) => setLayouts(message.data);
    worker.onerror = () => setLayouts("failed");
    const shape: GraphShape = {
      units: facts.units.map(({ block, successors }) => ({ block, successors })),
      blocks: facts.blocks.map(({ first, n }) => ({ first, n })),
    };
    worker.postMessage(shape);
    return () => worker.terminate();
  }, [facts]);
  return layouts;
}
