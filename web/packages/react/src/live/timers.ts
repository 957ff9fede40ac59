import { pauseMs } from './backoff';
import type { Timer } from './state';

/** Nothing heard for so long: ask whether anybody is there. Above the service's interval for heartbeats. */
const QUIET_MS = 15_000;
/** For a pong, and for everything from credentials to being let in. */
const ANSWER_MS = 8_000;

/** The socket's timers, each at most once. */
export class Timers {
  readonly #running = new Map<Timer, ReturnType<typeof setTimeout>>();
  readonly #rang: (timer: Timer) => void;
  readonly #random: () => number;

  constructor(rang: (timer: Timer) => void, random: () => number) {
    this.#rang = rang;
    this.#random = random;
  }

  set(timer: Timer, failures: number): void {
    this.clear(timer);
    const ring = () => {
      this.#running.delete(timer);
      this.#rang(timer);
    };
    this.#running.set(timer, setTimeout(ring, this.#lasts(timer, failures)));
  }

  clear(timer: Timer): void {
    clearTimeout(this.#running.get(timer));
    this.#running.delete(timer);
  }

  #lasts(timer: Timer, failures: number): number {
    switch (timer) {
      case 'redial':
        return pauseMs(failures, this.#random);
      case 'quiet':
        return QUIET_MS;
      case 'answer':
        return ANSWER_MS;
    }
  }
}
