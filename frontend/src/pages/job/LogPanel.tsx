import { Button } from "@mantine/core";
import { memo, useLayoutEffect, useRef, useState } from "react";

import { Panel } from "@/components/Panel";
import { clock } from "@/lib/format";
import type { LogLine } from "@/lib/jobLive";

import classes from "./LogPanel.module.css";

const NEAR_END_PX = 12;

/** The log. It follows its end only while the reader is there; elsewhere it stays put. */
export function LogPanel({ lines }: { lines: readonly LogLine[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(true);

  useLayoutEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, following]);

  const noticeScroll = () => {
    if (!box.current) return;
    const { scrollHeight, scrollTop, clientHeight } = box.current;
    setFollowing(scrollHeight - scrollTop - clientHeight < NEAR_END_PX);
  };

  return (
    <Panel
      title="Log"
      flush
      actions={
        !following && (
          <Button size="compact-xs" variant="subtle" onClick={() => setFollowing(true)}>
            To the end
          </Button>
        )
      }
    >
      <div
        ref={box}
        className={classes.log}
        role="log"
        aria-label="The job's log"
        tabIndex={0}
        onScroll={noticeScroll}
        data-testid="log-tail"
      >
        {lines.map((line) => (
          <Line key={line.seq} line={line} />
        ))}
      </div>
    </Panel>
  );
}

const Line = memo(function Line({ line }: { line: LogLine }) {
  return (
    <div className={classes.line} data-level={line.level}>
      <span className={classes.time}>{clock(line.at)}</span>
      <span className={classes.level}>{line.level}</span>
      <span className={classes.message}>{line.message}</span>
    </div>
  );
});
