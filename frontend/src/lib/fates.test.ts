import { describe, expect, it } from "vitest";

import type { Result } from "@/api/types";

import { fateOf, fateWords } from "./fates";

const contender = (scheduler: string, search: Result["search"] = {}, winner = false) => ({
  scheduler,
  kind: scheduler.startsWith("torch.") ? ("alternative" as const) : ("schedule" as const),
  winner,
  search,
});
const faster = { faster_alternative: { name: "torch.compile", latency_ms: 5 } };
const none = { faster_alternative: null };

describe("fateOf", () => {
  it("names the winner, and who could not be told apart from it", () => {
    expect(fateOf(contender("ios", { final: true, tied: true }, true), none)).toEqual({
      words: "winner",
      reason: null,
      rank: "best",
    });
    expect(fateOf(contender("opara", { final: true, tied: true }), none).words).toBe(
      "tied with the winner",
    );
  });

  it("says why a contender left, and when", () => {
    const dropped = "surely slower than ios after 12 rounds";
    const early = fateOf(contender("greedy", { rung: 2, rungs: 4, final: false, dropped }), none);
    expect(fateWords(early)).toBe(`dropped in rung 2 of 4: ${dropped}`);
    const late = fateOf(contender("greedy", { rung: 4, rungs: 4, final: true, dropped }), none);
    expect(late.words).toBe("lost the final");
    expect(late.reason).toBe(dropped);
  });

  it("sends the user to an alternative that is faster, and calls no schedule the winner then", () => {
    const kept = fateOf(contender("torch.compile", { final: true, tied: true }), faster);
    expect(kept).toMatchObject({ words: "keep this: faster than any schedule", rank: "best" });
    const ours = fateOf(contender("ios", { final: true }, true), faster);
    expect(ours).toMatchObject({ words: "in the artifact", rank: "other" });
    expect(fateOf(contender("torch.compile max-autotune", { tied: true }), faster).words).toBe(
      "tied with the fastest",
    );
  });

  it("knows what an older result is, which was in no tournament", () => {
    expect(fateOf(contender("ios", {}, true), undefined).words).toBe("winner");
    expect(fateWords(fateOf(contender("greedy"), undefined))).toBe("");
  });
});
