/** The form's values and the request they make. */
import type {
  Device,
  Granularity,
  JobCreate,
  JobSpec,
  Provider,
  SearchMode,
  Strategies,
  Threads,
} from "@/api/types";
import { AUTO } from "@/lib/auto";
import { groupDevices, isSimulated } from "@/lib/deviceFacts";
import type { CalibratorForm, Hosts, MeasurerKind, ReactForm } from "@/lib/measurers";
import { DEFAULT_PROVIDER } from "@/lib/providers";

export interface Values {
  purpose: "tune" | "kernels";
  name: string;
  model: string;
  device: string;
  batchSizes: string[];
  /** Empty for the length that the model was exported with. */
  sequenceLength: number | string;
  schedulers: string[];
  budgetSeconds: number | string;
  granularity: Granularity;
  provider: Provider;
  allowNoise: boolean;
  seed: number | string;
  maxUnitsPerGroup: number | string;
  maxGroupsPerStage: number | string;
  strategies: Strategies;
  threads: Threads;
  searchMode: SearchMode;
  gapPercent: number | string;
  oparaStrict: boolean;
  stageMeasurer: JobSpec["measurer"];
  /** Of a job for kernels: whose tensor programs, and how they are tuned. */
  programSource: "model" | "workloads";
  workloads: string[];
  /** ``FAMILY:SIZE=N,SIZE=N``, as on the command line. */
  programs: string[];
  modelBatch: number | string;
  tuner: string;
  measurer: MeasurerKind;
  /** Empty for as many as the worker has cores. */
  degree: number | string;
  reactForm: ReactForm;
  calibrator: CalibratorForm;
  trials: number | string;
  proposed: number | string;
  cold: boolean;
  hosts: Hosts;
}

/** The choice to begin with for those who do not want all of them. */
export const SINGLES: readonly string[] = ["sequential", "greedy", "ios"];

export const DEFAULTS: Values = {
  purpose: "tune",
  name: "",
  model: "",
  device: "",
  batchSizes: ["1"],
  sequenceLength: "",
  schedulers: [AUTO],
  budgetSeconds: 300,
  granularity: "fused",
  provider: DEFAULT_PROVIDER,
  allowNoise: false,
  seed: 0,
  maxUnitsPerGroup: 3,
  maxGroupsPerStage: 8,
  strategies: "both",
  threads: "searched",
  searchMode: "guided",
  gapPercent: 0,
  oparaStrict: false,
  stageMeasurer: "serial",
  programSource: "model",
  workloads: [],
  programs: [],
  modelBatch: 1,
  tuner: "evolutionary",
  measurer: "doppler",
  degree: "",
  reactForm: "paper",
  calibrator: "pooled",
  trials: 64,
  proposed: 64,
  cold: false,
  hosts: "own",
};

/** Whether the job is about a model, which every job for schedules is. */
export const ofModel = ({ purpose, programSource }: Values) =>
  purpose === "tune" || programSource === "model";

/** Each field of the request, and the field of the form that shows its errors. */
export const FIELD_OF = {
  name: "name",
  model: "model",
  device: "device",
  batch_sizes: "batchSizes",
  sequence_length: "sequenceLength",
  schedulers: "schedulers",
  budget_seconds: "budgetSeconds",
  granularity: "granularity",
  provider: "provider",
  allow_noise: "allowNoise",
  seed: "seed",
  "ios.max_units_per_group": "maxUnitsPerGroup",
  "ios.max_groups_per_stage": "maxGroupsPerStage",
  "ios.strategies": "strategies",
  "ios.threads": "threads",
  "ios.mode": "searchMode",
  "ios.gap": "gapPercent",
  "opara.strict": "oparaStrict",
  measurer: "stageMeasurer",
  purpose: "purpose",
  "kernels.programs": "workloads",
  "kernels.tuner": "tuner",
  "kernels.measurer.kind": "measurer",
  "kernels.measurer.degree": "degree",
  "kernels.measurer.form": "reactForm",
  "kernels.measurer.calibrator": "calibrator",
  "kernels.trials": "trials",
  "kernels.batch_size": "proposed",
  "kernels.cold": "cold",
  "kernels.hosts": "hosts",
} as const satisfies Record<string, keyof Values>;

export const REQUEST_FIELDS = Object.keys(FIELD_OF) as (keyof typeof FIELD_OF)[];

const ADVANCED_NUMBERS = ["seed", "maxUnitsPerGroup", "maxGroupsPerStage", "gapPercent"] as const;
const ADVANCED: readonly (keyof Values)[] = [
  "granularity",
  "strategies",
  "threads",
  "searchMode",
  "oparaStrict",
  "reactForm",
  "calibrator",
  "cold",
  "hosts",
  "stageMeasurer",
  ...ADVANCED_NUMBERS,
];

export const isAdvanced = (field: string) => (ADVANCED as readonly string[]).includes(field);

/** A family with sizes, of which those that are left out are its own; null if it is not that. */
export function programOf(word: string): { family: string; sizes: Record<string, number> } | null {
  const [family = "", ...rest] = word.split(":");
  const parts = rest.join(":").split(",").map((part) => part.trim());
  const sizes = parts.filter(Boolean).map((part) => /^(\w+)\s*=\s*(-?\d+)$/.exec(part));
  if (family.trim() === "" || rest.length === 0 || sizes.includes(null)) return null;
  return {
    family: family.trim(),
    sizes: Object.fromEntries(sizes.map((found) => [found?.[1] ?? "", Number(found?.[2])])),
  };
}

/** Only what would not become a request at all; every other rule is the service's. */
export function invalid(values: Values): Partial<Record<keyof Values, string>> {
  const errors: Partial<Record<keyof Values, string>> = {};
  if (ofModel(values) && values.model === "") errors.model = "choose a model";
  if (values.device === "") errors.device = "choose a device";
  if (values.purpose === "kernels") {
    if (!ofModel(values)) {
      const odd = values.programs.filter((word) => programOf(word) === null);
      if (odd.length > 0) errors.programs = `not FAMILY:SIZE=N,SIZE=N: ${odd.join("; ")}`;
      if (values.workloads.length + values.programs.length === 0) {
        errors.workloads = "choose a workload, or give a program of your own";
      }
    }
    for (const field of ["modelBatch", "trials", "proposed", "budgetSeconds", "seed"] as const) {
      if (values[field] === "") errors[field] = "give a number";
    }
    return errors;
  }
  const odd = values.batchSizes.filter((text) => !/^\d+$/.test(text));
  if (odd.length > 0) errors.batchSizes = `not a whole number: ${odd.join(", ")}`;
  if (values.batchSizes.length === 0) errors.batchSizes = "give at least one batch size";
  if (values.schedulers.length === 0) errors.schedulers = "choose at least one scheduler";
  for (const field of ["budgetSeconds", ...ADVANCED_NUMBERS] as const) {
    if (values[field] === "") errors[field] = "give a number";
  }
  return errors;
}

/** The service's word on a field, where its unit is not the form's. */
export const inForm = (field: keyof typeof FIELD_OF, message: string) =>
  field === "ios.gap" ? `${message} (as a fraction: 1 % is 0.01)` : message;

/** The service's word on a field, put where the form has that field. */
export function placeOf(field: keyof typeof FIELD_OF, values: Values): keyof Values {
  if (field === "batch_sizes" && values.purpose === "kernels") return "modelBatch";
  // Workloads are chosen from what there is; what is wrong was written.
  if (field === "kernels.programs" && values.programs.length > 0) return "programs";
  return FIELD_OF[field];
}

export function request(values: Values): JobCreate {
  return values.purpose === "kernels" ? kernelJob(values) : scheduleJob(values);
}

/** What only a job for schedules has is left at its defaults, whatever was chosen before. */
function kernelJob(values: Values): JobCreate {
  const model = ofModel(values);
  const { measurer, degree } = values;
  return {
    ...scheduleJob({
      ...DEFAULTS,
      name: values.name,
      device: values.device,
      batchSizes: [model ? String(values.modelBatch) : "1"],
      sequenceLength: model ? values.sequenceLength : "",
      budgetSeconds: values.budgetSeconds,
      seed: values.seed,
      allowNoise: values.allowNoise,
    }),
    purpose: "kernels",
    model: model ? values.model : null,
    kernels: {
      programs: model
        ? []
        : [
            ...values.workloads.map((workload) => ({ workload, sizes: {}, weight: 1 })),
            ...values.programs.flatMap((word) => {
              const program = programOf(word);
              return program === null ? [] : [{ ...program, weight: 1 }];
            }),
          ],
      tuner: values.tuner,
      measurer: {
        kind: measurer,
        degree: measurer === "serial" || degree === "" ? 0 : Number(degree),
        form: values.reactForm,
        calibrator: values.calibrator,
      },
      trials: Number(values.trials),
      batch_size: Number(values.proposed),
      cold: values.cold,
      hosts: values.hosts,
    },
  };
}

function scheduleJob(values: Values): JobCreate {
  return {
    purpose: "tune",
    name: values.name.trim(),
    model: values.model,
    device: values.device,
    batch_sizes: values.batchSizes.map(Number),
    sequence_length: values.sequenceLength === "" ? null : Number(values.sequenceLength),
    schedulers: values.schedulers,
    budget_seconds: Number(values.budgetSeconds),
    granularity: values.granularity,
    provider: values.provider,
    allow_noise: values.allowNoise,
    seed: Number(values.seed),
    measurer: values.stageMeasurer,
    ios: {
      max_units_per_group: Number(values.maxUnitsPerGroup),
      max_groups_per_stage: Number(values.maxGroupsPerStage),
      strategies: values.strategies,
      threads: values.threads,
      mode: values.searchMode,
      gap: Number(values.gapPercent) / 100,
    },
    opara: { strict: values.oparaStrict },
  };
}

/** What of the choices made so far holds on another device. */
export function onDevice(values: Values, device: Device | undefined): Partial<Values> {
  const offered = device?.capabilities.schedulers ?? [];
  const kept = values.schedulers.filter((name) => offered.includes(name));
  // A worker's list of names, of which the service takes only those of its own.
  const providers = (device?.capabilities.providers ?? []) as readonly Provider[];
  return {
    device: device?.name ?? "",
    // A worker may be too old to know how to try everything.
    schedulers: kept.length > 0 ? kept : SINGLES.filter((name) => offered.includes(name)),
    provider: providers.includes(values.provider)
      ? values.provider
      : (providers[0] ?? DEFAULT_PROVIDER),
    ...kernelsOn(values, device),
    // Nothing disturbs a simulation, and the switch is not there to be turned off again.
    allowNoise: values.allowNoise && device !== undefined && !isSimulated(device),
  };
}

/** What of the choices for kernels holds there; all of them where it tunes none, which it says. */
function kernelsOn(values: Values, device: Device | undefined): Partial<Values> {
  const offer = device?.capabilities.kernels;
  if (!offer) return {};
  const names = new Set(offer.workloads.map(({ name }) => name));
  return {
    workloads: values.workloads.filter((name) => names.has(name)),
    tuner: offer.tuners.some(({ name }) => name === values.tuner)
      ? values.tuner
      : (offer.tuners[0]?.name ?? values.tuner),
  };
}

/** The values to start with: a device that is online and real first, and what it offers of the
 * defaults. */
export function startingValues(model: string | undefined, devices: readonly Device[]): Values {
  const { measured, simulated } = groupDevices(devices);
  const ordered = [...measured, ...simulated];
  const device = ordered.find((each) => each.online) ?? ordered[0];
  return { ...DEFAULTS, model: model ?? "", ...onDevice(DEFAULTS, device) };
}
