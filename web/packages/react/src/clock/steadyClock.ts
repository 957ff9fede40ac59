/** Readings of both clocks at one moment differ by less: one has whole milliseconds, and both are adjusted slightly. */
const CLOCKS_DIFFER_MS = 50;

/**
 * Milliseconds since 1970 that never stop and never decrease.
 *
 * The wall clock can be set back; the page's clock may stop while the machine sleeps. For each interval the longer reading
 * counts.
 */
export function steadyClock(wall = () => Date.now(), page = () => performance.now()): () => number {
  let now = wall();
  let last = { wall: now, page: page() };
  return () => {
    const read = { wall: wall(), page: page() };
    const [byWall, byPage] = [read.wall - last.wall, read.page - last.page];
    last = read;
    now += Math.max(0, byPage - byWall > CLOCKS_DIFFER_MS ? byPage : byWall);
    return now;
  };
}
