/** The typed client. Every call either returns its data or throws an ApiProblem. */
import createClient from "openapi-fetch";

import { problemFrom, unreachable } from "./problem";
import type { paths } from "./schema";

async function fetchOrExplain(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw unreachable();
  }
}

export const client = createClient<paths>({
  baseUrl: window.location.origin,
  credentials: "same-origin",
  fetch: fetchOrExplain,
});

interface Answer<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** The data of an answer; throws its problem if it is one. */
export async function dataOf<Data>(call: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await call;
  if (!response.ok) throw problemFrom(response.status, error);
  return data as Data;
}
