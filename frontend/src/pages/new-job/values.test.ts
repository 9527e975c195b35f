import { describe, expect, it } from "vitest";

import type { Device } from "@/api/types";

import document from "../../../openapi.json";

import {
  DEFAULTS,
  FIELD_OF,
  inForm,
  invalid,
  onDevice,
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
    const { ios, opara, ...rest } = request(values({}));
    const paths = [
      ...Object.keys(rest),
      ...Object.keys(ios).map((key) => `ios.${key}`),
      ...Object.keys(opara).map((key) => `opara.${key}`),
    ];
    expect(Object.keys(FIELD_OF).sort()).toEqual(paths.sort());
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
});
