import { pauseMs } from './backoff';
import type { Timer } from './state';

/** Without a message for this long, a ping is sent. Above the service's interval for heartbeats. */
const SILENCE_MS = 15_000;
/** For a pong, and for everything from credentials to authentication. */
const RESPONSE_MS = 8_000;

/** The connection's timers; each runs at most once at a time. */
export class Timers {
  readonly #running = new Map<Timer, ReturnType<typeof setTimeout>>();
  readonly #onTime: (timer: Timer) => void;
  readonly #random: () => number;

  constructor(onTime: (timer: Timer) => void, random: () => number) {
    this.#onTime = onTime;
    this.#random = random;
  }

  start(timer: Timer, failures: number): void {
    this.stop(timer);
    const fire = () => {
      this.#running.delete(timer);
      this.#onTime(timer);
    };
    this.#running.set(timer, setTimeout(fire, this.#duration(timer, failures)));
  }

  stop(timer: Timer): void {
    clearTimeout(this.#running.get(timer));
    this.#running.delete(timer);
  }

  #duration(timer: Timer, failures: number): number {
    switch (timer) {
      case 'reconnect':
        return pauseMs(failures, this.#random);
      case 'silence':
        return SILENCE_MS;
      case 'response':
        return RESPONSE_MS;
    }
  }
}
