/** A timer that fires once. Setting it again replaces the earlier time. */
export class Alarm {
  #timer: ReturnType<typeof setTimeout> | undefined;

  set(afterMs: number, ring: () => void): void {
    this.clear();
    this.#timer = setTimeout(ring, afterMs);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}
