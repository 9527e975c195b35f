/** Calls `run` at once, then at most every `milliseconds`; a call in between is not lost. */
export interface Throttled {
  (): void;
  cancel(): void;
}

export function throttle(run: () => void, milliseconds: number): Throttled {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;

  function fire(): void {
    again = false;
    run();
    timer = setTimeout(() => {
      timer = undefined;
      if (again) fire();
    }, milliseconds);
  }

  const throttled = () => {
    if (timer === undefined) fire();
    else again = true;
  };
  throttled.cancel = () => {
    clearTimeout(timer);
    timer = undefined;
    again = false;
  };
  return throttled;
}
