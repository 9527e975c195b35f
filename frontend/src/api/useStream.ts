/** Follows a stream while a component is shown, in batches, and only while the page is visible. */
import { useDocumentVisibility } from "@mantine/hooks";
import { useEffect, useEffectEvent, useRef, useState } from "react";

import { follow, type StreamStatus } from "./stream";
import type { JobEvent } from "./types";

/** A replay can be thousands of events: they are handed over together, ten times a second. */
const BATCH_MS = 100;

interface Following<Event extends JobEvent> {
  /** Another key is another stream, followed from its beginning. */
  streamKey: string;
  address: (after: number) => string;
  onEvents: (events: readonly Event[]) => void;
  /** Nothing more is to come once the stream has ended; unset, it is opened anew. */
  finished: boolean;
  onResync?: () => void;
}

/**
 * Browsers allow six connections to a host over HTTP/1.1, so a dozen tabs left open would block
 * each other: a hidden page lets go of its stream and catches up when it is shown again.
 */
export function useStream<Event extends JobEvent>({
  streamKey,
  address,
  onEvents,
  finished,
  onResync,
}: Following<Event>): StreamStatus {
  const visible = useDocumentVisibility() !== "hidden";
  const [status, setStatus] = useState<StreamStatus>("connecting");
  const seen = useRef({ key: streamKey, after: 0 });
  const deliver = useEffectEvent(onEvents);
  const resync = useEffectEvent(() => onResync?.());
  const addressOf = useEffectEvent(address);
  const over = finished && status === "ended";

  useEffect(() => {
    if (over || !visible) return undefined;
    if (seen.current.key !== streamKey) seen.current = { key: streamKey, after: 0 };
    let waiting: Event[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;

    function flush(): void {
      clearTimeout(timer);
      timer = undefined;
      const batch = waiting;
      waiting = [];
      if (batch.length === 0) return;
      seen.current.after = Math.max(seen.current.after, ...batch.map((event) => event.seq));
      deliver(batch);
    }

    const close = follow<Event>({
      address: (after) => addressOf(after),
      after: seen.current.after,
      onEvent: (event) => {
        waiting.push(event);
        timer ??= setTimeout(flush, BATCH_MS);
      },
      onResync: () => resync(),
      onStatus: (next) => {
        if (next === "ended") flush();
        setStatus(next);
      },
    });
    // What still waits here was not counted as seen, so it comes again.
    return () => {
      clearTimeout(timer);
      close();
    };
  }, [streamKey, over, visible]);

  return status;
}
