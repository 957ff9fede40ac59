/** Rings once. Setting it again forgets what it was set for before. */
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
