import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";

import { asProblem, type ApiProblem } from "@/api/problem";
import { keys } from "@/api/queries";
import { sendFile } from "@/api/upload";
import type { Upload } from "@/api/types";

/** A file on its way, or one that did not arrive and says why. */
export interface SendingFile {
  key: number;
  name: string;
  size: number;
  sent: number;
  problem: ApiProblem | null;
}

interface SendingFiles {
  files: readonly SendingFile[];
  send: (files: readonly File[]) => void;
  /** Stops a file that is on its way, forgets one that failed. */
  remove: (key: number) => void;
}

export function useSending(onStored: (upload: Upload) => void): SendingFiles {
  const cache = useQueryClient();
  const [files, setFiles] = useState<readonly SendingFile[]>([]);
  const aborts = useRef(new Map<number, () => void>());
  const nextKey = useRef(0);

  const drop = useCallback((key: number) => {
    aborts.current.delete(key);
    setFiles((all) => all.filter((file) => file.key !== key));
  }, []);

  const sendOne = async (file: File) => {
    const key = nextKey.current++;
    const change = (part: Partial<SendingFile>) =>
      setFiles((all) => all.map((each) => (each.key === key ? { ...each, ...part } : each)));
    setFiles((all) => [...all, { key, name: file.name, size: file.size, sent: 0, problem: null }]);
    const sending = sendFile(file, (sent) => change({ sent }));
    aborts.current.set(key, sending.abort);
    try {
      const upload = await sending.done;
      await cache.invalidateQueries({ queryKey: keys.uploads });
      drop(key);
      onStored(upload);
    } catch (error) {
      aborts.current.delete(key);
      change({ problem: asProblem(error) });
    }
  };

  return {
    files,
    send: (chosen) => chosen.forEach((file) => void sendOne(file)),
    remove: (key) => {
      aborts.current.get(key)?.();
      drop(key);
    },
  };
}
