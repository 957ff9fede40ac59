"""`python -m tests.simulation --seeds 2000` searches for a seed that breaks a promise; `--seed N` replays one."""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from typing import TYPE_CHECKING

from tests.simulation.checks import violations
from tests.simulation.scenario import START, play

if TYPE_CHECKING:
    from tests.simulation.scenario import Run


def digest(run: Run) -> str:
    """A digest of a history, to compare two of them."""
    return hashlib.sha256(repr(run.events).encode()).hexdigest()[:16]


def replay(seed: int, *, in_full: bool) -> int:
    """Replays one seed, prints its violations, and returns their number."""
    run = play(seed)
    if in_full:
        for event in run.events:
            print(f"{event.at - START:9.4f}  {event}")
    broken = violations(run)
    for violation in broken:
        print(violation)
    print(f"seed {seed}: {len(run.events)} events, {len(broken)} violations, history {digest(run)}")
    return len(broken)


def search(seeds: range) -> int:
    """Runs many seeds, prints those with violations, and returns their number."""
    started_at = time.monotonic()
    failed = 0
    for number, seed in enumerate(seeds, 1):
        broken = violations(play(seed))
        if broken:
            failed += 1
            print(f"\rseed {seed}: {broken[0]}" + (f" (and {len(broken) - 1} more)" if broken[1:] else ""))
            print(f"  replay it with: python -m tests.simulation --seed {seed}")
        if number % 10 == 0 or number == len(seeds):
            took = time.monotonic() - started_at
            print(f"\r{number}/{len(seeds)} seeds, {failed} failed, {took:.0f} s", end="", flush=True)
    print()
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed")
    parser.add_argument("--history", action="store_true", help="with --seed: print every event")
    parser.add_argument("--seeds", type=int, default=2000, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    if asked.seed is not None:
        return 1 if replay(asked.seed, in_full=asked.history) else 0
    return 1 if search(range(asked.first, asked.first + asked.seeds)) else 0


if __name__ == "__main__":
    sys.exit(main())
