export type ChangeKind = 'same' | 'added' | 'removed';

/** A part of the text that is in both, or only in one. */
export interface Change {
  readonly kind: ChangeKind;
  readonly text: string;
}

// The work grows with the number of differences times the length. A longer word diff is unreadable anyway.
const MOST_EDITS = 2000;

/** The changes from `before` to `after`, by words. `same` and `removed` make up `before`, `same` and `added` `after`. */
export function diffWords(before: string, after: string): readonly Change[] {
  const old = wordsOf(before);
  const now = wordsOf(after);
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail))
    tail += 1;
  const changes = shortestEdit(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  const same = (text: string): Change => ({ kind: 'same', text });
  return joined(
    readable([...old.slice(0, head).map(same), ...changes, ...old.slice(old.length - tail).map(same)]),
  );
}

/** Moves each change as far back as possible: "one.[ Two.]" is equal to "one[. Two].", and more readable. */
function readable(words: Change[]): readonly Change[] {
  for (let start = 0; start < words.length; start += 1) {
    const kind = words[start]?.kind;
    if (kind === undefined || kind === 'same') continue;
    let end = start;
    while (words[end]?.kind === kind) end += 1;
    while (words[end]?.kind === 'same' && words[end]?.text === words[start]?.text) {
      const text = words[start]?.text ?? '';
      words[start] = { kind: 'same', text };
      words[end] = { kind, text };
      start += 1;
      end += 1;
    }
    start = end - 1;
  }
  return words;
}

/** Words, spaces and punctuation marks; joined they are the text. */
export function wordsOf(text: string): readonly string[] {
  return text.match(/\n|[^\S\n]+|[\p{L}\p{M}\p{N}_'’]+|[^\s\p{L}\p{M}\p{N}]/gu) ?? [];
}

/** Myers' greedy algorithm: the furthest reach of each diagonal for each number of edits, then the way back. */
function shortestEdit(old: readonly string[], now: readonly string[]): readonly Change[] {
  const most = Math.min(old.length + now.length, MOST_EDITS);
  const trace: Map<number, number>[] = [];
  let reach = new Map<number, number>([[1, 0]]);
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(reach);
    const next = new Map<number, number>();
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const down = reach.get(diagonal + 1) ?? -1;
      const right = reach.get(diagonal - 1) ?? -1;
      let x = diagonal === -edits || (diagonal !== edits && right < down) ? down : right + 1;
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x += 1;
      next.set(diagonal, x);
      if (x >= old.length && x - diagonal >= now.length) return wayBack(old, now, trace);
    }
    reach = next;
  }
  return [
    { kind: 'removed', text: old.join('') },
    { kind: 'added', text: now.join('') },
  ];
}

function wayBack(
  old: readonly string[],
  now: readonly string[],
  trace: readonly Map<number, number>[],
): Change[] {
  const changes: Change[] = [];
  let x = old.length;
  let y = now.length;
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = trace[edits] ?? new Map<number, number>();
    const diagonal = x - y;
    const down = reach.get(diagonal + 1) ?? -1;
    const right = reach.get(diagonal - 1) ?? -1;
    const cameDown = diagonal === -edits || (diagonal !== edits && right < down);
    const fromX = cameDown ? down : right;
    const fromY = fromX - (cameDown ? diagonal + 1 : diagonal - 1);
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      x -= 1;
      y -= 1;
      changes.push({ kind: 'same', text: old[x] ?? '' });
    }
    if (edits === 0) break;
    if (cameDown) changes.push({ kind: 'added', text: now[fromY] ?? '' });
    else changes.push({ kind: 'removed', text: old[fromX] ?? '' });
    x = fromX;
    y = fromY;
  }
  return changes.reverse();
}

function joined(changes: readonly Change[]): readonly Change[] {
  const result: Change[] = [];
  for (const change of changes) {
    const last = result.at(-1);
    if (change.text === '') continue;
    if (last?.kind === change.kind)
      result[result.length - 1] = { kind: change.kind, text: last.text + change.text };
    else result.push(change);
  }
  return result;
}
