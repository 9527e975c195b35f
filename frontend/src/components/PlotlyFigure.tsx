import { useEffect, useRef } from "react";

import type { Figure } from "@/api/types";
import { createPlot, type Plot } from "@/lib/plot";

interface PlotlyFigureProps {
  figure: Figure;
  label: string;
}

/** Draws a figure as the API made it, into all of its parent's room. */
export function PlotlyFigure({ figure, label }: PlotlyFigureProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(null);

  useEffect(() => {
    if (!element.current) return undefined;
    const created = createPlot(element.current);
    plot.current = created;
    return created.close;
  }, []);

  useEffect(() => plot.current?.show(figure), [figure]);

  return <div ref={element} role="img" aria-label={label} style={{ width: "100%", height: "100%" }} />;
}
