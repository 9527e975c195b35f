/** Errors of the API in words: RFC 9457 problems, and what stands in for one when none came. */
import type { ProblemBody } from "./types";

export interface FieldError {
  field: string;
  message: string;
}

export class ApiProblem extends Error {
  override readonly name = "ApiProblem";
  readonly title: string;
  readonly status: number;
  readonly errors: readonly FieldError[];

  constructor(title: string, status: number, detail: string, errors: readonly FieldError[] = []) {
    super(detail);
    this.title = title;
    this.status = status;
    this.errors = errors;
  }

  get detail(): string {
    return this.message;
  }
}

function isProblem(body: unknown): body is ProblemBody {
  return (
    typeof body === "object" &&
    body !== null &&
    typeof (body as { title?: unknown }).title === "string" &&
    typeof (body as { detail?: unknown }).detail === "string"
  );
}

/** The problem of a response with an error status, whatever its body is. */
export function problemFrom(status: number, body: unknown): ApiProblem {
  if (isProblem(body)) {
    return new ApiProblem(body.title, status, body.detail, body.errors ?? []);
  }
  return new ApiProblem("Unexpected answer", status, `The service answered with status ${status}.`);
}

/** No response at all: the service is down, or the network between is. */
export function unreachable(): ApiProblem {
  return new ApiProblem(
    "Plait cannot be reached",
    0,
    "The service did not answer. Is it still running? Start it with `plait up`, then try again.",
  );
}

export function asProblem(error: unknown): ApiProblem {
  if (error instanceof ApiProblem) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new ApiProblem("Something went wrong", 0, detail);
}

/**
 * Sorts a problem's field errors to the form's fields: `batch_sizes.1` belongs to `batch_sizes`.
 * What belongs to no known field is returned under `rest`.
 */
export function errorsByField<Field extends string>(
  problem: ApiProblem,
  fields: readonly Field[],
): { byField: Partial<Record<Field, string>>; rest: readonly FieldError[] } {
  const byField: Partial<Record<Field, string>> = {};
  const rest: FieldError[] = [];
  // Longest first, so that `ios.max_units_per_group` is not taken by a field called `ios`.
  const longestFirst = [...fields].sort((a, b) => b.length - a.length);
  for (const error of problem.errors) {
    const path = error.field.replace(/^body\./, "");
    const field = longestFirst.find((name) => path === name || path.startsWith(`${name}.`));
    if (field === undefined) {
      rest.push(error);
    } else {
      byField[field] = byField[field] ? `${byField[field]}; ${error.message}` : error.message;
    }
  }
  return { byField, rest };
}
