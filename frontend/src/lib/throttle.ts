/**
 * Calls `run` at once, then at most every `milliseconds`; a call in between is not lost, nor one
 * that `run` itself makes to put its work off.
 */
export interface Throttled {
  (): void;
  cancel(): void;
}

export function throttle(run: () => void, milliseconds: number): Throttled {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;

  function fire(): void {
    again = false;
    timer = setTimeout(() => {
      timer = undefined;
      if (again) fire();
    }, milliseconds);
    run();
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
