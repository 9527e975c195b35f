/**
 * One Plotly figure in one element. Updates go through `Plotly.react`, and the API's figures carry
 * a constant `uirevision`, so zoom, pan and hidden traces survive them.
 */
import type { Figure } from "@/api/types";

import { NARROW_PX, narrowed } from "./narrowed";

export interface Plot {
  show: (figure: Figure) => void;
  close: () => void;
}

const CONFIG = {
  displaylogo: false,
  doubleClick: "reset",
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
};

const loadPlotly = () => import("plotly.js-cartesian-dist-min").then((module) => module.default);

export function createPlot(element: HTMLElement): Plot {
  // A finger that drags over a figure means to scroll the page.
  const touch = matchMedia("(pointer: coarse)").matches;
  const dragmode = touch ? { dragmode: false } : {};
  const config = { ...CONFIG, displayModeBar: touch ? false : "hover" };
  let waiting: Figure | null = null;
  let drawn = false;
  let drawing = false;
  let held = false;
  let closed = false;

  async function draw(): Promise<void> {
    if (drawing) return;
    drawing = true;
    const plotly = await loadPlotly();
    while (waiting && !held && !closed) {
      // Plotly writes into what it is given, and this came from the query cache.
      const { data, layout: drawnWide } = structuredClone(waiting);
      const layout = element.clientWidth < NARROW_PX ? narrowed(drawnWide) : drawnWide;
      waiting = null;
      await plotly.react(element, data, { ...layout, ...dragmode, autosize: true }, config);
      drawn = true;
    }
    drawing = false;
  }

  // An update in the middle of a drag would end it: it waits until the button is let go.
  const hold = () => {
    held = true;
  };
  const release = () => {
    held = false;
    if (waiting) void draw();
  };
  element.addEventListener("pointerdown", hold, { capture: true });
  window.addEventListener("pointerup", release);
  window.addEventListener("pointercancel", release);

  async function fit(): Promise<void> {
    if (!drawn) return;
    const plotly = await loadPlotly();
    if (!closed) await plotly.Plots.resize(element);
  }
  const observer = new ResizeObserver(() => void fit());
  observer.observe(element);

  return {
    show: (figure) => {
      waiting = figure;
      void draw();
    },
    close: () => {
      closed = true;
      observer.disconnect();
      element.removeEventListener("pointerdown", hold, { capture: true });
      window.removeEventListener("pointerup", release);
      window.removeEventListener("pointercancel", release);
      if (drawn) void loadPlotly().then((plotly) => plotly.purge(element));
    },
  };
}
