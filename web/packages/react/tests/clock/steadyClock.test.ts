import { expect, test } from 'vitest';
import { steadyClock } from '../../src/clock/steadyClock';

function clocks() {
  const read = { wall: 1_000_000, page: 0 };
  const now = steadyClock(
    () => read.wall,
    () => read.page,
  );
  return {
    pass(byWall: number, byPage: number): number {
      const before = now();
      read.wall += byWall;
      read.page += byPage;
      return now() - before;
    },
  };
}

test('follows the wall clock, also through a sleep in which the page’s clock stopped', () => {
  const { pass } = clocks();
  expect(pass(1_000, 1_000.4)).toBe(1_000);
  expect(pass(3_600_000, 20)).toBe(3_600_000);
});

test('follows the page’s clock while the wall clock is set back', () => {
  const { pass } = clocks();
  expect(pass(-3_600_000, 1_000)).toBe(1_000);
  expect(pass(1_000, 1_000)).toBe(1_000);
  expect(pass(-5, 3)).toBe(0);
});

test('is not faster after frequent readings', () => {
  const { pass } = clocks();
  let passed = 0;
  for (let step = 0; step < 1_000; step += 1) passed += pass(step % 2 === 0 ? 1 : 0, 0.5);
  expect(passed).toBe(500);
});
