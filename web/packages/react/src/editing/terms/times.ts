/** Seconds. Those that the service tells over the socket stand in for the first three, unless the host has set them. */
export interface Times {
  /** How long a hold lasts without a heartbeat. */
  readonly ttl: number;
  readonly heartbeat: number;
  /** Without activity in the editor for this long, the text is saved and the lock given back. */
  readonly idle: number;
  /** The countdown to that is shown for this long. */
  readonly idleWarning: number;
  /** A change is saved this long after the last one … */
  readonly autosave: number;
  /** … and this long after the first one that is not saved, for people who do not stop typing. */
  readonly autosaveAtMost: number;
  /** How often to ask for the lock's state while there is no socket. */
  readonly refetch: number;
  /** Retries while the service cannot be reached begin with this pause, and double it up to `retryAtMost`. */
  readonly retry: number;
  readonly retryAtMost: number;
  /** Two ticks of the clock further apart than this: the page was asleep, and knows nothing any more. */
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
