/** Short names for the generated wire types. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Artifact = Schemas["ArtifactRead"];
export type BatchSummary = Schemas["BatchSummary"];
export type Block = Schemas["BlockFacts"];
export type BlockCount = Schemas["BlockCounts"]["paper"];
/** What the best latency of kernels is drawn over. */
export type Clock = Schemas["Clock"];
export type Device = Schemas["DeviceRead"];
export type Figure = Schemas["FigureRead"];
export type FigureKind = Schemas["FigureKind"];
export type Granularity = Schemas["JobSpec"]["granularity"];
export type GraphFacts = Schemas["GraphFacts"];
export type InspectionCreate = Schemas["InspectionCreate"];
export type Job = Schemas["JobRead"];
export type JobCreate = Schemas["JobCreate"];
/** Which tensor programs are tuned, and how. */
export type KernelOptions = Schemas["KernelOptions"];
/** Which kernels a device's worker can tune. */
export type KernelOffer = Schemas["KernelOffer"];
export type JobEvent = Schemas["EventRead"];
/** An event of the stream that spans all jobs. */
export type AnyJobEvent = Schemas["JobEventRead"];
export type JobPage = Schemas["JobPage"];
export type JobProblem = Schemas["JobProblem"];
export type JobProgress = Schemas["JobProgress"];
export type JobSpec = Schemas["JobSpec"];
export type JobState = Schemas["JobState"];
export type Model = Schemas["ModelRead"];
export type Purpose = Schemas["Purpose"];
export type ProfileSummary = Schemas["ProfileSummary"];
/** Who implements the operators. */
export type Provider = Schemas["JobSpec"]["provider"];
export type ProblemBody = Schemas["Problem"];
export type LogData = Schemas["LogEvent"];
export type Result = Schemas["ResultRead"];
export type Scope = Schemas["Scope"];
export type SearchData = Schemas["SearchEvent"];
/** Which stages IOS measures. */
export type SearchMode = Schemas["IosOptions"]["mode"];
export type Session = Schemas["SessionRead"];
export type StateData = Schemas["StateEvent"];
/** How IOS may run a stage. */
export type Strategies = Schemas["IosOptions"]["strategies"];
/** Whether IOS tries other threads on a CPU than those that the device gives. */
export type Threads = Schemas["IosOptions"]["threads"];
export type Token = Schemas["TokenRead"];
export type TokenCreate = Schemas["TokenCreate"];
export type TokenCreated = Schemas["TokenCreated"];
export type TensorFacts = Schemas["TensorFacts"];
/** What a job for kernels tunes and how far it is. */
export type Tuning = Schemas["TuningRead"];
export type TuningKernel = Schemas["TuningKernelRead"];
export type TuningProgram = Schemas["TuningProgramRead"];
export type TuningRound = Schemas["TuningRoundRead"];
export type Uncovered = Schemas["UncoveredRead"];
export type Unit = Schemas["UnitFacts"];
export type Upload = Schemas["UploadRead"];
export type ZooModel = Schemas["ZooModelRead"];
