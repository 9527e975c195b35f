import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";

import { FailedPage } from "./components/FailedPage";
import { NotFound } from "./components/NotFound";
import { Shell } from "./components/shell/Shell";
import { isJobState } from "./lib/jobStates";
import { type GraphSearch, parseGraphSearch } from "./lib/graphChoice";
import type { Clock, JobState } from "./api/types";

const rootRoute = createRootRoute({
  component: Shell,
  notFoundComponent: NotFound,
  errorComponent: FailedPage,
});

const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/jobs", replace: true });
  },
});

const modelsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/models",
  component: lazyRouteComponent(() => import("./pages/models/ModelsPage"), "ModelsPage"),
});

/** Which graph is shown and which Unit is chosen in it is in the address. */
export interface ModelSearch extends GraphSearch {
  unit?: string;
}

const modelRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/models/$model",
  validateSearch: (search: Record<string, unknown>): ModelSearch => ({
    ...parseGraphSearch(search),
    ...(typeof search.unit === "string" ? { unit: search.unit } : {}),
  }),
  component: lazyRouteComponent(() => import("./pages/model/ModelPage"), "ModelPage"),
});

export interface JobsSearch {
  state?: JobState;
}

const jobsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs",
  validateSearch: (search: Record<string, unknown>): JobsSearch =>
    isJobState(search.state) ? { state: search.state } : {},
  component: lazyRouteComponent(() => import("./pages/jobs/JobsPage"), "JobsPage"),
});

export interface NewJobSearch {
  model?: string;
}

const newJobRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs/new",
  validateSearch: (search: Record<string, unknown>): NewJobSearch =>
    typeof search.model === "string" ? { model: search.model } : {},
  component: lazyRouteComponent(() => import("./pages/new-job/NewJobPage"), "NewJobPage"),
});

/** What the figures show is in the address: a link to a job shows what its sender saw. */
export interface JobSearch {
  batch?: number;
  scheduler?: string;
  /** Of a job for kernels: what best latencies are drawn over, and of how many rounds processes. */
  x?: Clock;
  newest?: number;
}

const isClock = (value: unknown): value is Clock => value === "trials" || value === "time";
const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 64;

const jobRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs/$jobId",
  validateSearch: (search: Record<string, unknown>): JobSearch => ({
    ...(typeof search.batch === "number" ? { batch: search.batch } : {}),
    ...(typeof search.scheduler === "string" ? { scheduler: search.scheduler } : {}),
    ...(isClock(search.x) ? { x: search.x } : {}),
    ...(isCount(search.newest) ? { newest: search.newest } : {}),
  }),
  component: lazyRouteComponent(() => import("./pages/job/JobPage"), "JobPage"),
});

const devicesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/devices",
  component: lazyRouteComponent(() => import("./pages/devices/DevicesPage"), "DevicesPage"),
});

const tokensRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/tokens",
  component: lazyRouteComponent(() => import("./pages/tokens/TokensPage"), "TokensPage"),
});

const routeTree = rootRoute.addChildren([
  homeRoute,
  modelsRoute,
  modelRoute,
  jobsRoute,
  newJobRoute,
  jobRoute,
  devicesRoute,
  tokensRoute,
]);

export function createAppRouter() {
  return createRouter({ routeTree, defaultPreload: "intent", scrollRestoration: true });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
