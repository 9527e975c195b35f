/** The part of Plotly that is used; the package has no types of its own. */
declare module "plotly.js-cartesian-dist-min" {
  type Json = Record<string, unknown>;

  interface Plotly {
    react(element: HTMLElement, data: Json[], layout: Json, config: Json): Promise<HTMLElement>;
    purge(element: HTMLElement): void;
    Plots: { resize(element: HTMLElement): Promise<void> };
  }

  const plotly: Plotly;
  export default plotly;
}
