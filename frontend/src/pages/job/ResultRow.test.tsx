import { MantineProvider, Table } from "@mantine/core";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it, vi } from "vitest";

import type { Result } from "@/api/types";

import { ResultRow } from "./ResultRow";

// The API's client asks the browser for its address as soon as it is imported.
vi.hoisted(() => vi.stubGlobal("window", { location: { origin: "http://localhost" } }));

function rowOf(search: Result["search"]): string {
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
    search,
    environment: {},
    created_at: "2026-11-21T12:00:00Z",
  };
  return renderToStaticMarkup(
    <MantineProvider>
      <Table>
        <Table.Tbody>
          <ResultRow
            row={{ result, ratio: 1.2, verdict: null }}
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
});
