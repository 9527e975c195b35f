import { expect, it } from "vitest";

import { formatTitles } from "./formats";

it("names each format once, in a fixed order", () => {
  expect(formatTitles(["torchscript", "onnx", "onnx"])).toEqual([
    "ONNX (.onnx)",
    "TorchScript (.pt, .pth, .ts)",
  ]);
});

it("lets a format that it does not know go by its key", () => {
  expect(formatTitles(["gguf"])).toEqual(["gguf (.gguf)"]);
});
