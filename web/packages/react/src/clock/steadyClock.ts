/** Two readings of one moment differ by less: one clock has whole milliseconds, and both are set right by a little. */
const CLOCKS_DIFFER_MS = 50;

/**
 * Milliseconds since 1970 that never stand still and never go back.
 *
 * The clock on the wall can be set back; the one of the page may stand still while the machine sleeps. Of each stretch of
 * time the longer reading counts.
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
