import { describe, expect, it } from "vitest";

import { ApiProblem, errorsByField, problemFrom } from "./problem";

const unprocessable = (...errors: { field: string; message: string }[]) =>
  new ApiProblem("Unprocessable Content", 422, "wrong", errors);

describe("problemFrom", () => {
  it("keeps the words and the fields of a problem", () => {
    const problem = problemFrom(413, {
      type: "about:blank",
      title: "Content Too Large",
      status: 413,
      detail: "the file is larger than 2 GiB",
      errors: [{ field: "file", message: "too large" }],
    });
    expect(problem.title).toBe("Content Too Large");
    expect(problem.detail).toBe("the file is larger than 2 GiB");
    expect(problem.errors).toEqual([{ field: "file", message: "too large" }]);
  });

  it("says the status when the body is not a problem", () => {
    expect(problemFrom(502, "<html>").detail).toContain("502");
    expect(problemFrom(500, undefined).errors).toEqual([]);
  });
});

describe("errorsByField", () => {
  it("gives an entry's error to its field", () => {
    const { byField, rest } = errorsByField(
      unprocessable({ field: "batch_sizes.1", message: "must be at least 1" }),
      ["model", "batch_sizes"],
    );
    expect(byField).toEqual({ batch_sizes: "must be at least 1" });
    expect(rest).toEqual([]);
  });

  it("prefers the longest field and strips the body prefix", () => {
    const { byField } = errorsByField(
      unprocessable({ field: "body.ios.max_units_per_group", message: "too large" }),
      ["ios", "ios.max_units_per_group"],
    );
    expect(byField).toEqual({ "ios.max_units_per_group": "too large" });
  });

  it("joins several errors of one field and returns those of none", () => {
    const { byField, rest } = errorsByField(
      unprocessable(
        { field: "schedulers.0", message: "unknown" },
        { field: "schedulers.1", message: "given twice" },
        { field: "modelling", message: "no such field" },
      ),
      ["schedulers", "model"],
    );
    expect(byField).toEqual({ schedulers: "unknown; given twice" });
    expect(rest).toEqual([{ field: "modelling", message: "no such field" }]);
  });
});
