import { describe, expect, it } from "vitest";

import { factLines } from "./deviceFacts";

describe("factLines", () => {
  it("reads sizes, mappings and lists, and leaves out what is shown elsewhere", () => {
    expect(
      factLines({
        name: "cpu",
        parallelism: 16,
        memory_bytes: 8 * 1024 ** 3,
        versions: { torch: "2.13.0", plait: "0.1.0" },
        cores: [0, 1],
        simulated: false,
      }),
    ).toEqual([
      ["Parallelism", "16"],
      ["Memory", "8.0 GiB"],
      ["Versions", "torch 2.13.0, plait 0.1.0"],
      ["Cores", "0, 1"],
    ]);
  });
});
