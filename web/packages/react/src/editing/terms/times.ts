/** Seconds. `ttl`, `heartbeat` and `idle` come from the service over the socket, unless the host has set them. */
export interface Times {
  /** How long a hold lasts without a heartbeat. */
  readonly ttl: number;
  readonly heartbeat: number;
  /** Without activity in the editor for this long, the text is saved and the lock released. */
  readonly idle: number;
  /** The length of the countdown to that. */
  readonly idleWarning: number;
  /** A save follows the last change after this time … */
  readonly autosave: number;
  /** … and the first unsaved change after this time, for users who type without a pause. */
  readonly autosaveAtMost: number;
  /** The interval between looks at the lock while there is no socket. */
  readonly refetch: number;
  /** The first pause between attempts while the service is unreachable. It doubles up to `retryAtMost`. */
  readonly retry: number;
  readonly retryAtMost: number;
  /** After a longer gap between two ticks the page was asleep, and its state is in doubt. */
  readonly asleep: number;
}

export const defaultTimes: Times = {
  ttl: 45,
  heartbeat: 10,
  idle: 30,
  idleWarning: 5,
  autosave: 10,
  autosaveAtMost: 30,
  refetch: 30,
  retry: 1,
  retryAtMost: 10,
  asleep: 5,
};
