"""Finds an order of atomic steps that explains the outcomes that callers of a lock got. Independent of leasehold.

A history is what happened to one lock: steps, each done by the server at one moment between `since` and `until`,
what the callers got, and what the server showed in the end. `explanations` finds every order of the steps
in which a plain lock with a first-come-first-served queue would have said the same and ended the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

What = Literal["ask", "release", "renew", "take", "leave", "expire"]
Mode = Literal["exclusive", "shared"]


@dataclass(frozen=True)
class Step:
    """One thing that the server did, or may have done if it is not `is_certain`.

    ask      wait for the lock; `fence` says that it was granted, at `until` at the latest; `joined_by` that it
             was seen in the queue then
    take     get it by force; with `expects` only from that holder, otherwise `said` is "no"
    release  give it back: "yes", or the reason why it was lost before
    renew    keep it: "yes", or the reason why it was lost before
    leave    stop waiting for it or holding it, for good; without a notification
    expire   the lease ran out
    """

    who: str
    what: What
    since: float
    until: float
    said: str = "yes"
    fence: int | None = None
    mode: Mode = "exclusive"
    expects: str | None = None
    joined_by: float | None = None
    is_certain: bool = True


@dataclass(frozen=True)
class History:
    steps: tuple[Step, ...]
    held: frozenset[int]
    """The fences of the holders at the end, as the server showed them."""
    waiters: int = 0


@dataclass(frozen=True)
class _Lock:
    """A lock as it ought to be. `now` is the earliest moment at which the last step can have been done."""

    now: float = float("-inf")
    holders: tuple[tuple[str, Mode], ...] = ()
    queue: tuple[tuple[str, Mode], ...] = ()
    granted: tuple[str, ...] = ()
    """In the order of the grants; a caller that lost it without notice and repeated its acquire is there twice."""
    ended: dict[str, str] = field(default_factory=dict)

    def holds(self, who: str) -> bool:
        return any(who == holder for holder, _ in self.holders)

    def after(self, step: Step) -> _Lock | None:
        """The lock after one more step; None if its reply would have been different."""
        lock = replace(self, now=max(self.now, step.since))
        if lock.now > (step.until if step.joined_by is None else step.joined_by) or not lock.would_say(step):
            return None
        match step.what:
            case "ask" if not lock.knows(step.who):
                lock = replace(lock, queue=(*lock.queue, (step.who, step.mode)))
            case "take" if step.said != "no":
                ended = lock.ended | {who: "taken" for who, _ in lock.holders}
                lock = replace(lock, holders=((step.who, step.mode),), ended=ended)
                lock = replace(lock, granted=(*lock.granted, step.who))
            case "release":
                lock = lock.without(step.who, "released")
            case "leave":
                lock = lock.without(step.who, "left")
            case "expire":
                lock = lock.without(step.who, "expired")
            case _:
                pass
        return lock.settled()

    def would_say(self, step: Step) -> bool:
        is_held = self.holds(step.who)
        match step.what:
            case "ask":
                return self.ended.get(step.who) != "left"
            case "take":
                return (step.said == "no") == (step.expects is not None and not self.holds(step.expects))
            case "release":
                return (
                    is_held if step.said == "yes" else not is_held and step.said == self.ended.get(step.who)
                )
            case "renew":
                return is_held or step.said != "yes"
            case "expire":
                return is_held
            case _:
                return True

    def knows(self, who: str) -> bool:
        return self.holds(who) or any(who == waiter for waiter, _ in self.queue)

    def without(self, who: str, reason: str) -> _Lock:
        ended = self.ended | {who: reason} if self.holds(who) or reason == "left" else self.ended
        return replace(
            self,
            holders=tuple(holder for holder in self.holders if holder[0] != who),
            queue=tuple(waiter for waiter in self.queue if waiter[0] != who),
            ended=ended,
        )

    def settled(self) -> _Lock:
        lock = self
        while lock.queue:
            who, mode = lock.queue[0]
            if lock.holders and not (mode == "shared" and all(held == "shared" for _, held in lock.holders)):
                break
            lock = replace(lock, holders=(*lock.holders, (who, mode)), queue=lock.queue[1:])
            lock = replace(lock, granted=(*lock.granted, who))
        return lock


def explanations(history: History) -> list[tuple[Step, ...]]:
    """Every order of the steps that explains the history; steps that did not happen are left out."""
    told = {step.who: step for step in history.steps if step.fence is not None}
    found: list[tuple[Step, ...]] = []

    def is_in_time(before: _Lock, after: _Lock) -> bool:
        """A reported grant cannot have happened after its report."""
        fresh = after.granted[len(before.granted) :]
        return all(who not in told or after.now <= told[who].until for who in fresh)

    def is_the_end(lock: _Lock) -> bool:
        last = dict.fromkeys(reversed(lock.granted))
        fences = [told[who].fence for who in reversed(last) if who in told]
        return (
            len(fences) == len(told)
            and fences == sorted(set(fences), key=lambda fence: fence or 0)
            and len(lock.queue) == history.waiters
            and {told[who].fence if who in told else None for who, _ in lock.holders} == history.held
            and all(
                lock.ended.get(step.who) == "taken"
                for step in history.steps
                if step.what == "renew" and step.said == "taken"
            )
        )

    def go_on(lock: _Lock, done: tuple[int, ...]) -> None:
        left = [number for number in range(len(history.steps)) if number not in done]
        if not any(history.steps[number].is_certain for number in left) and is_the_end(lock):
            found.append(tuple(history.steps[number] for number in done))
        for number in left:
            after = lock.after(history.steps[number])
            if after is not None and is_in_time(lock, after):
                go_on(after, (*done, number))

    go_on(_Lock(), ())
    return found


def check(history: History) -> list[tuple[Step, ...]]:
    """The explanations, of which there must be one."""
    found = explanations(history)
    assert found, f"no order of these steps explains it: {history}"
    return found
