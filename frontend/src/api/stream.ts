/**
 * Follows a server-sent event stream until it ends or is closed.
 *
 * The browser reconnects by itself after a broken connection, with Last-Event-ID. It gives up
 * when the server answers with an error (a restart behind a proxy); then this opens a new stream
 * after the last event seen, waiting longer each time.
 */
import type { JobEvent } from "./types";

export type StreamStatus = "connecting" | "live" | "lost" | "ended";

export interface StreamOptions<Event extends JobEvent> {
  /** The address that continues after event `after` (0 for the beginning). */
  address: (after: number) => string;
  after: number;
  onEvent: (event: Event) => void;
  onStatus: (status: StreamStatus) => void;
  /** Something may have been missed, or this is the beginning: read the rest anew. */
  onResync?: () => void;
}

const EVENT_TYPES: readonly JobEvent["type"][] = [
  "state",
  "progress",
  "search",
  "round",
  "result",
  "log",
  "tuning_round",
  "tuning_kernel",
];
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15_000;

/** Starts following; returns what stops it. */
export function follow<Event extends JobEvent>(options: StreamOptions<Event>): () => void {
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let last = options.after;
  let wait = FIRST_WAIT_MS;

  function receive(message: MessageEvent<string>): void {
    const event = JSON.parse(message.data) as Event;
    last = Math.max(last, event.seq);
    options.onEvent(event);
  }

  function open(): void {
    const opened = new EventSource(options.address(last));
    source = opened;
    options.onStatus("connecting");
    opened.onopen = () => {
      wait = FIRST_WAIT_MS;
      options.onStatus("live");
    };
    opened.onerror = () => {
      options.onStatus("lost");
      if (opened.readyState !== EventSource.CLOSED) return;
      retry = setTimeout(open, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
    for (const type of EVENT_TYPES) opened.addEventListener(type, receive);
    opened.addEventListener("resync", () => options.onResync?.());
    opened.addEventListener("end", () => {
      opened.close();
      options.onStatus("ended");
    });
  }

  open();
  return () => {
    clearTimeout(retry);
    source?.close();
  };
}
