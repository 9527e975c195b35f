/** Sends a file as it is. XMLHttpRequest because fetch does not tell how much has been sent. */
import { ApiProblem, problemFrom, unreachable } from "./problem";
import { addresses } from "./queries";
import type { Upload } from "./types";

export interface Sending {
  done: Promise<Upload>;
  abort: () => void;
}

export function sendFile(file: File, onProgress: (sentBytes: number) => void): Sending {
  const request = new XMLHttpRequest();
  const done = new Promise<Upload>((resolve, reject) => {
    request.upload.onprogress = (event) => onProgress(event.loaded);
    request.onload = () => {
      const body = parsed(request.responseText);
      if (request.status >= 200 && request.status < 300) resolve(body as Upload);
      else reject(problemFrom(request.status, body));
    };
    request.onerror = () => reject(unreachable());
    request.onabort = () => reject(new ApiProblem("Upload stopped", 0, "You stopped this upload."));
    request.open("POST", addresses.upload(file.name));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.send(file);
  });
  return { done, abort: () => request.abort() };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
