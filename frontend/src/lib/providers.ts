import type { Provider } from "@/api/types";

/** Who implements the operators, in words; a provider that is not here is shown by its name. */
const WORDS: Record<string, { label: string; short: string }> = {
  aten: { label: "PyTorch kernels", short: "PyTorch" },
  inductor: { label: "compiled by TorchInductor", short: "TorchInductor" },
  onnxruntime: { label: "ONNX Runtime", short: "ONNX Runtime" },
};

export const DEFAULT_PROVIDER: Provider = "aten";

/** As in a list to choose from. */
export const providerLabel = (name: string) => WORDS[name]?.label ?? name;

/** As in a column. */
export const providerName = (name: string) => WORDS[name]?.short ?? name;
