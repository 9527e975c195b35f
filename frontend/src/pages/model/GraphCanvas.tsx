import { useComputedColorScheme } from "@mantine/core";
import { type Ref, useEffect, useEffectEvent, useImperativeHandle, useRef } from "react";

import type { Ink, Picture } from "@/lib/graph/paint";
import { createGraphView, type GraphView } from "@/lib/graph/view";

import classes from "./GraphPanel.module.css";
import { type Selection, selectedNode, type Target } from "./selection";

interface GraphCanvasProps {
  label: string;
  picture: Picture;
  selection: Selection;
  target: Target | null;
  onSelect: (selection: Selection) => void;
  onToggle: (block: number) => void;
  ref: Ref<GraphView>;
}

/** The canvas; the tables hold the same for whoever cannot see it. */
export function GraphCanvas({ label, picture, selection, target, ref, ...on }: GraphCanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<GraphView | null>(null);
  const scheme = useComputedColorScheme("light");
  const pick = useEffectEvent(on.onSelect);
  const toggle = useEffectEvent(on.onToggle);

  useEffect(() => {
    if (!canvas.current) return undefined;
    const created = createGraphView(canvas.current, {
      onPick: (picked) => pick(picked),
      onToggle: (block) => toggle(block),
    });
    view.current = created;
    return created.close;
  }, []);

  useImperativeHandle(ref, () => ({
    show: (...all) => view.current?.show(...all),
    mark: (node) => view.current?.mark(node),
    fitAll: () => view.current?.fitAll(),
    zoomBy: (factor) => view.current?.zoomBy(factor),
    goToUnit: (unit) => view.current?.goToUnit(unit),
    goToBlock: (block) => view.current?.goToBlock(block),
    close: () => view.current?.close(),
  }));

  useEffect(() => {
    if (canvas.current) view.current?.show(picture, inkOf(canvas.current));
  }, [picture, scheme]);

  useEffect(() => view.current?.mark(selectedNode(selection)), [selection]);

  // After the picture: what was collapsed is open by now.
  useEffect(() => {
    if (target === null) return;
    if ("unit" in target) view.current?.goToUnit(target.unit);
    else view.current?.goToBlock(target.block);
  }, [target]);

  return (
    <>
      <canvas
        ref={canvas}
        className={classes.canvas}
        role="img"
        aria-label={label}
        tabIndex={0}
        data-testid="graph-canvas"
        data-units={picture.scene.units.length}
        data-collapsed={picture.scene.blocks.filter((block) => block.collapsed).length}
      />
      <div className={classes.hint} aria-hidden>
        drag to move · click, then scroll to zoom
      </div>
    </>
  );
}

/** The theme's colours, as the canvas needs them: resolved to `#rrggbb`. */
function inkOf(element: HTMLElement): Ink {
  const style = getComputedStyle(element);
  const colour = (name: string) => hex(style.getPropertyValue(name).trim());
  const dark = document.documentElement.dataset.mantineColorScheme === "dark";
  return {
    panel: colour("--mantine-color-body"),
    page: colour("--plait-page"),
    text: colour("--mantine-color-text"),
    dimmed: colour("--mantine-color-dimmed"),
    line: colour("--mantine-color-default-border"),
    edge: dark ? "#66717d" : "#98a2ab",
    accent: dark ? "#ffb454" : "#b4470b",
    font: style.fontFamily,
  };
}

const probe = document.createElement("canvas").getContext("2d");

/** A canvas gives colours back as `#rrggbb`, whatever CSS called them. */
function hex(colour: string): string {
  if (!probe || colour === "") return "#888888";
  probe.fillStyle = colour;
  return probe.fillStyle;
}
