import { MantineProvider, Table } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it, vi } from "vitest";

import type { Result } from "@/api/types";

import { ResultRow } from "./ResultRow";

// The API's client asks the browser for its address as soon as it is imported.
vi.hoisted(() => vi.stubGlobal("window", { location: { origin: "http://localhost" } }));

function rowOf(search: Result["search"], part: Partial<Result> = {}): string {
  const result: Result = {
    id: "1",
    batch_size: 1,
    scheduler: "ios",
    latency_ms: 8,
    low_ms: 7.9,
    high_ms: 8.1,
    samples: 50,
    simulated: false,
    verified: true,
    max_abs_error: 0,
    winner: true,
    provider: "aten",
    kind: "schedule",
    place: 1,
    search,
    environment: {},
    created_at: "2026-11-21T12:00:00Z",
    ...part,
  };
  return renderToStaticMarkup(
    <MantineProvider>
      <Table>
        <Table.Tbody>
          <ResultRow
            row={{ result, ratio: 1.2, verdict: null }}
            summary={undefined}
            jobId="job"
            onDetails={() => undefined}
          />
        </Table.Tbody>
      </Table>
    </MantineProvider>,
  );
}

describe("ResultRow", () => {
  it("says that the stages of a schedule run without barriers", () => {
    expect(rowOf({ barriers: false })).toContain(">without barriers<");
  });

  it("says nothing of barriers that stayed, nor of schedules that have no stages", () => {
    expect(rowOf({ barriers: true })).not.toContain("barriers");
    expect(rowOf({})).not.toContain("barriers");
  });

  it("offers no schedule of an alternative, and marks it", () => {
    const row = rowOf({}, { scheduler: "torch.compile", kind: "alternative", winner: false });
    expect(row).toContain(">alternative<");
    expect(row).toContain(">its own<");
    expect(row).not.toContain("/schedule");
    expect(rowOf({})).toContain("/schedule");
  });

  it("says what became of a contender, and how sure its speed-up is", () => {
    const search = { rung: 1, rungs: 4, final: false, dropped: "surely slower than ios" };
    const row = rowOf(search, { winner: false });
    expect(row).toContain("Dropped in rung 1 of 4");
    expect(row).toContain("Surely slower than ios");
    expect(rowOf({})).toContain(">Winner<");
  });
});
