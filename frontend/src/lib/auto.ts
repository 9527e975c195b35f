/** In place of schedulers' names: all of them, combined and refined, beside what the user has. */
export const AUTO = "auto";

export const AUTO_LABEL = "Auto: everything, and what you have";

/** Whether a scheduler runs, by its name or among all. */
export const runs = (schedulers: readonly string[], name: string) =>
  schedulers.includes(name) || schedulers.includes(AUTO);
