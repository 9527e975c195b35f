/** The formats of model files, by the key that a device announces. */

interface Format {
  /** Of the files' names, the usual one first. */
  endings: readonly string[];
  title: string;
}

const FORMATS: Readonly<Record<string, Format>> = {
  onnx: { endings: [".onnx"], title: "ONNX" },
  "onnx.zip": { endings: [".zip"], title: "ONNX with its external data" },
  pt2: { endings: [".pt2"], title: "torch.export" },
  torchscript: { endings: [".pt", ".pth", ".ts"], title: "TorchScript" },
};

/** What can be uploaded, such as `ONNX (.onnx)`; a format of a newer worker goes by its key. */
export function formatTitles(keys: Iterable<string>): string[] {
  return [...new Set(keys)].sort().map((key) => {
    const { endings, title } = FORMATS[key] ?? { endings: [`.${key}`], title: key };
    return `${title} (${endings.join(", ")})`;
  });
}
