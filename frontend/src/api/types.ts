/** Names for the generated wire types, and the shapes of `data` that depend on an event's type. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Artifact = Schemas["ArtifactRead"];
export type BatchSummary = Schemas["BatchSummary"];
export type Device = Schemas["DeviceRead"];
export type Figure = Schemas["FigureRead"];
export type FigureKind = Schemas["FigureKind"];
export type Job = Schemas["JobRead"];
export type JobCreate = Schemas["JobCreate"];
export type JobEvent = Schemas["EventRead"];
export type JobPage = Schemas["JobPage"];
export type JobProblem = Schemas["JobProblem"];
export type JobProgress = Schemas["JobProgress"];
export type JobState = Schemas["JobState"];
export type ProblemBody = Schemas["Problem"];
export type Result = Schemas["ResultRead"];
export type Scope = Schemas["Scope"];
export type Session = Schemas["SessionRead"];
export type Token = Schemas["TokenRead"];
export type TokenCreate = Schemas["TokenCreate"];
export type TokenCreated = Schemas["TokenCreated"];
export type Upload = Schemas["UploadRead"];
export type ZooModel = Schemas["ZooModelRead"];

export interface StateData {
  state: JobState;
  previous: JobState;
  attempt: number;
  problem: JobProblem | null;
}

export interface SearchData {
  scheduler: string;
  batch_size: number;
  elapsed_seconds: number;
  block: number;
  blocks: number;
  states: number;
  transitions: number;
  stages_measured: number;
  stages_total: number;
  best_ms: number | null;
}

export interface LogData {
  level: "debug" | "info" | "warning" | "error";
  message: string;
}
