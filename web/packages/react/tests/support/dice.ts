/** Random numbers that are the same for the same seed (mulberry32). */
export function dice(seed: number): {
  below(limit: number): number;
  oneOf<Item>(items: readonly Item[]): Item;
} {
  let state = seed >>> 0;
  const roll = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const below = (limit: number) => Math.floor(roll() * limit);
  return { below, oneOf: (items) => items[below(items.length)] as (typeof items)[number] };
}
