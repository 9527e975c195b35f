import { describe, expect, it } from "vitest";

import type { Device } from "@/api/types";

import document from "../../../openapi.json";

import {
  DEFAULTS,
  FIELD_OF,
  inForm,
  invalid,
  onDevice,
  placeOf,
  programOf,
  request,
  startingValues,
  type Values,
} from "./values";

const values = (part: Partial<Values>): Values => ({
  ...DEFAULTS,
  model: "zoo:squeezenet",
  device: "cpu",
  ...part,
});

const device = (name: string, online: boolean, schedulers: string[], providers = ["aten"]): Device => ({
  name,
  kind: "cpu",
  description: "",
  fingerprint: "",
  facts: {},
  capabilities: { schedulers, zoo: [], zoo_families: [], formats: [], providers },
  worker: "w",
  last_progress_at: "2026-11-21T12:00:00Z",
  online,
});

describe("invalid", () => {
  it("accepts what can be sent", () => expect(invalid(values({}))).toEqual({}));

  it("leaves ranges to the service, so that there is one rule", () => {
    expect(invalid(values({ batchSizes: ["0"], budgetSeconds: -1 }))).toEqual({});
  });

  it("names what is no number or missing", () => {
    expect(invalid(values({ batchSizes: ["1", "two"] })).batchSizes).toContain("two");
    expect(invalid(values({ model: "", schedulers: [], seed: "" }))).toEqual({
      model: "choose a model",
      schedulers: "choose at least one scheduler",
      seed: "give a number",
    });
  });
});

describe("request", () => {
  it("turns text into numbers", () => {
    const body = request(values({ batchSizes: ["1", "16"], budgetSeconds: "60", name: " a " }));
    expect(body.batch_sizes).toEqual([1, 16]);
    expect(body.budget_seconds).toBe(60);
    expect(body.name).toBe("a");
    expect(body.granularity).toBe("fused");
  });

  it("leaves the sequence length to the model unless one is given", () => {
    expect(request(values({})).sequence_length).toBeNull();
    expect(request(values({ sequenceLength: "128" })).sequence_length).toBe(128);
  });

  it("sends the gap as the fraction that it is, and reads its errors as such", () => {
    expect(request(values({ gapPercent: "2.5" })).ios.gap).toBe(0.025);
    expect(inForm("ios.gap", "less than 1")).toContain("1 % is 0.01");
    expect(inForm("seed", "too large")).toBe("too large");
  });

  it("starts from the service's own defaults", () => {
    const { JobCreate, IosOptions, OparaOptions } = document.components.schemas;
    const defaults = (properties: Record<string, object>) =>
      Object.fromEntries(
        Object.entries(properties).flatMap(([name, property]) =>
          "default" in property ? [[name, property.default]] : [],
        ),
      );
    const body = request(values({}));
    expect(body.ios).toEqual(defaults(IosOptions.properties));
    expect(body.opara).toEqual(defaults(OparaOptions.properties));
    expect({ ...body, purpose: "tune" }).toMatchObject({
      model: "zoo:squeezenet",
      ...defaults(JobCreate.properties),
    });
  });

  it("has a place in the form for every field's error", () => {
    const { ios, opara, kernels, ...rest } = request(tuned({}));
    const { measurer, ...options } = kernels!;
    const paths = [
      ...Object.keys(rest),
      ...Object.keys(ios).map((key) => `ios.${key}`),
      ...Object.keys(opara).map((key) => `opara.${key}`),
      ...Object.keys(options).map((key) => `kernels.${key}`),
      ...Object.keys(measurer).map((key) => `kernels.measurer.${key}`),
    ];
    expect(Object.keys(FIELD_OF).sort()).toEqual(paths.sort());
  });
});

const tuned = (part: Partial<Values>): Values =>
  values({ purpose: "kernels", programSource: "workloads", workloads: ["bert", "resnet"], ...part });

describe("a program of one's own", () => {
  it("is a family with sizes, as on the command line", () => {
    expect(programOf("matmul:rows=64, columns = 32")).toEqual({
      family: "matmul",
      sizes: { rows: 64, columns: 32 },
    });
    expect(programOf("matmul:")).toEqual({ family: "matmul", sizes: {} });
  });

  it.each(["matmul", ":rows=1", "matmul:rows", "matmul:rows=1.5", "matmul:rows=1:2", ""])(
    "is not %j",
    (word) => expect(programOf(word)).toBeNull(),
  );

  it("is asked for after the workloads, and shows what the service says of it", () => {
    const both = tuned({ workloads: ["bert"], programs: ["matmul:rows=64"] });
    expect(request(both).kernels?.programs).toEqual([
      { workload: "bert", sizes: {}, weight: 1 },
      { family: "matmul", sizes: { rows: 64 }, weight: 1 },
    ]);
    expect(invalid(both)).toEqual({});
    expect(placeOf("kernels.programs", both)).toBe("programs");
    expect(placeOf("kernels.programs", tuned({}))).toBe("workloads");
    expect(invalid(tuned({ workloads: [], programs: ["matmul"] }))).toEqual({
      programs: "not FAMILY:SIZE=N,SIZE=N: matmul",
    });
  });
});

describe("a job for kernels", () => {
  it("names the workloads and no model, or a model and no workloads", () => {
    const named = request(tuned({}));
    expect(named.purpose).toBe("kernels");
    expect(named.model).toBeNull();
    expect(named.kernels?.programs.map(({ workload }) => workload)).toEqual(["bert", "resnet"]);
    const model = request(tuned({ programSource: "model", modelBatch: "4", sequenceLength: 128 }));
    expect(model).toMatchObject({
      model: "zoo:squeezenet",
      batch_sizes: [4],
      sequence_length: 128,
      kernels: { programs: [] },
    });
  });

  it("starts from the service's own defaults", () => {
    const { KernelOptions, KernelMeasurer } = document.components.schemas;
    const { kernels } = request(tuned({ programSource: "model" }));
    const { measurer, ...options } = kernels!;
    for (const [made, { properties }] of [
      [options, KernelOptions],
      [measurer, KernelMeasurer],
    ] as const) {
      for (const [name, value] of Object.entries(made)) {
        expect((properties as Record<string, { default?: unknown }>)[name]?.default).toEqual(value);
      }
    }
  });

  it("is not bothered by what was chosen for schedules", () => {
    const body = request(tuned({ schedulers: [], gapPercent: "", batchSizes: [] }));
    expect(body.schedulers).toEqual(["auto"]);
    expect(body.ios.gap).toBe(0);
    expect(invalid(tuned({ schedulers: [], batchSizes: [] }))).toEqual({});
  });

  it("leaves the degree to the worker where none is given, and where there is only one", () => {
    const degree = (part: Partial<Values>) => request(tuned(part)).kernels?.measurer.degree;
    expect(degree({ degree: "" })).toBe(0);
    expect(degree({ degree: "8" })).toBe(8);
    expect(degree({ degree: "8", measurer: "serial" })).toBe(0);
  });

  it("says what is missing", () => {
    expect(invalid(tuned({ workloads: [], trials: "" }))).toEqual({
      workloads: "choose a workload, or give a program of your own",
      trials: "give a number",
    });
    expect(invalid(tuned({ programSource: "model", model: "" }))).toEqual({
      model: "choose a model",
    });
  });

  it("shows an error of the batch size where this form has it", () => {
    expect(placeOf("batch_sizes", tuned({}))).toBe("modelBatch");
    expect(placeOf("batch_sizes", values({}))).toBe("batchSizes");
  });
});

describe("startingValues", () => {
  it("prefers a device that is online and schedulers that it offers", () => {
    const start = startingValues(undefined, [
      device("cuda:0", false, ["sequential", "opara"]),
      device("cpu", true, ["sequential", "ios"]),
    ]);
    expect(start.device).toBe("cpu");
    expect(start.schedulers).toEqual(["sequential", "ios"]);
  });

  it("prefers a real device to a simulated one", () => {
    const start = startingValues(undefined, [
      device("sim:v100", true, ["sequential"]),
      device("cpu", true, ["sequential"]),
    ]);
    expect(start.device).toBe("cpu");
    const only = startingValues(undefined, [
      device("sim:v100", true, ["sequential"]),
      device("cpu", false, ["sequential"]),
    ]);
    expect(only.device).toBe("sim:v100");
  });

  it("starts without a device when none has registered", () => {
    expect(startingValues("zoo:squeezenet", []).device).toBe("");
  });
});

describe("onDevice", () => {
  it("keeps auto where it is offered, and else takes single schedulers", () => {
    const auto = values({ schedulers: ["auto"] });
    const offers = (...schedulers: string[]) =>
      onDevice(auto, device("cpu", true, schedulers)).schedulers;
    expect(offers("sequential", "ios", "auto")).toEqual(["auto"]);
    expect(offers("sequential", "ios")).toEqual(["sequential", "ios"]);
  });

  it("lets go of what the new device does not offer", () => {
    const chosen = values({ provider: "inductor", allowNoise: true, schedulers: ["ios", "opara"] });
    expect(onDevice(chosen, device("cpu", true, ["ios"], ["aten", "inductor"]))).toEqual({
      device: "cpu",
      schedulers: ["ios"],
      provider: "inductor",
      allowNoise: true,
    });
    expect(onDevice(chosen, device("sim:v100", true, ["ios", "opara"]))).toEqual({
      device: "sim:v100",
      schedulers: ["ios", "opara"],
      provider: "aten",
      allowNoise: false,
    });
  });

  it("keeps the tuner and the workloads that the new device has", () => {
    const offering = device("cpu", true, ["sequential"]);
    const workload = { name: "resnet", family: "conv2d", title: "", sizes: {}, gflops: 1 };
    const tuner = { name: "grid", title: "Grid", description: "" };
    offering.capabilities.kernels = { tuners: [tuner], workloads: [workload], families: {} };
    expect(onDevice(tuned({}), offering)).toMatchObject({ workloads: ["resnet"], tuner: "grid" });
    expect(onDevice(tuned({}), device("gpu", true, ["sequential"]))).not.toHaveProperty("tuner");
  });
});
