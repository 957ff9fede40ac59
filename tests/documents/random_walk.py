"""Random actions of two people at two tabs each and an owner, compared with the model at every step."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from tests.documents.model import NO_HOLD, Model

from leasehold.documents import Editor, Event, LockState, Times

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from leasehold.documents.store.lock_store import DocumentLockStore

TIMES = Times(ttl=0.4, heartbeat=0.1, save_within=0.15)
PEOPLE = [
    Editor(f"user-{name.lower()}", name, f"tab-{tab}")
    for name, tab in (("Ana", 1), ("Ana", 2), ("Bob", 1), ("Bob", 2), ("Olga", 1))
]
# Mostly short; now and then longer than a mark counts, or than the window for claiming.
PAUSES = [0.0] * 12 + [0.02] * 4 + [0.1] * 3 + [0.25, 0.45, 1.2]


class RandomWalk:
    """One document and its model."""

    def __init__(self, document_id: str, lock_store: DocumentLockStore, seed: int) -> None:
        self.document_id = document_id
        self.lock_store = lock_store
        self.random = random.Random(f"{seed} {document_id}")
        self.model = Model(ceil(TIMES.ttl * 1000), ceil(TIMES.save_within * 1000))
        self.fences: dict[int, int] = {}
        """From the number of a grant to its fence."""
        self.events: list[Event] = []
        self.seen: list[LockState] = []
        self.asks = ["ask-0"]
        self.said: list[str] = []

    async def run(self, steps: int, forget: Callable[[], Awaitable[None]] | None) -> None:
        for _ in range(steps):
            await asyncio.sleep(self.random.choice(PAUSES))
            if forget is not None and self.random.random() < 0.05:
                await forget()
            else:
                await self.step()

    async def step(self) -> None:
        who = self.random.choice(PEOPLE)
        if self.random.random() < 0.5:
            self.asks.append(f"ask-{len(self.asks)}")
        ask = self.random.choice(self.asks[-3:])
        known = self.random.choice([None, *list(self.fences)[-2:]])
        match self.random.choice(
            [
                "acquire",
                "acquire",
                "heartbeat",
                "release",
                "take",
                "take",
                "take",
                "claim",
                "withdraw",
                "inspect",
            ]
        ):
            case "acquire":
                move = self.random.random() < 0.4
                await self._ask(
                    "acquire",
                    who,
                    ask=ask,
                    floor=0,
                    move=move,
                    expects=lambda now: self.model.acquire(now, who, ask, move),
                )
            case "heartbeat":
                idle = self.random.choice([None, 0, 1.5])
                idle_ms = None if idle is None else ceil(idle * 1000)
                await self._ask(
                    "heartbeat",
                    who,
                    idle_for=idle,
                    expects=lambda now: self.model.heartbeat(now, who, idle_ms),
                )
            case "release":
                saved = self.random.random() < 0.5
                fence = None if known is None else self.fences[known]
                await self._ask(
                    "release",
                    who,
                    reason="idle",
                    fence=fence,
                    saved=saved,
                    expects=lambda now: self.model.release(now, who, known, "idle", saved),
                )
            case "take":
                fence = None if known is None else self.fences[known]
                await self._ask(
                    "take",
                    who,
                    ask=ask,
                    floor=0,
                    expect_fence=fence,
                    expects=lambda now: self.model.take(now, who, ask, known),
                )
            case "claim":
                await self._ask("claim", ask=ask, expects=lambda now: self.model.claim(now, ask))
            case "withdraw":
                await self._ask("withdraw", ask=ask, expects=lambda now: self.model.withdraw(now, ask))
            case _:
                state = await self.lock_store.inspect(self.document_id)
                self.model.inspect(_now_ms(state))
                self._compare("inspect", state)

    async def _ask(self, verb: str, *arguments: Any, expects: Callable[[int], str], **options: Any) -> None:
        verdict, state = await getattr(self.lock_store, verb)(self.document_id, *arguments, **options)
        expected = expects(_now_ms(state))
        self.said.append(f"{verb} {arguments} {options}: {verdict}")
        assert verdict == expected, self._complain(f"should be {expected}")
        self._compare(verb, state)

    def _compare(self, verb: str, state: LockState) -> None:
        self.said.append(f"{verb} saw {state}")
        model, hold = self.model, self.model.hold
        assert state.is_locked == (hold is not None), self._complain("who has it?")
        self._compare_version(state)
        if hold is not None:
            assert state.holder.editor == hold.editor, self._complain("another holder")
            idle_ms = None if state.holder.idle_since is None else round(state.holder.idle_since * 1000)
            times = (round(state.holder.acquired_at * 1000), round(state.held_until * 1000), idle_ms)
            assert times == (hold.since_ms, hold.until_ms, hold.idle_ms), self._complain("other times")
            taking = (
                None if state.taking is None else (state.taking.by, round(state.taking.save_until * 1000))
            )
            expected = None if hold.taking is None else (hold.taking.by, hold.taking.until_ms)
            assert taking == expected, self._complain("another mark")
        elif model.history:
            past, last = model.history[0], state.last
            assert (last.reason, last.person, last.ended_by) == (past.reason, past.person, past.by), (
                self._complain("why?")
            )
            assert round(last.ended_at * 1000) == past.ended_ms, self._complain("when?")
        self.seen.append(state)

    def _compare_version(self, state: LockState) -> None:
        expected = self.model.version
        if expected is None:
            assert state.version.step == NO_HOLD
        else:
            number, step = expected
            assert state.version.step == step, self._complain(f"step {step}")
            self.learn(number, state.version.fence)
        if not self.seen:
            return
        before = self.seen[-1]
        assert state.version >= before.version, self._complain("the version fell")
        if before.version == state.version:
            same = (before.is_locked, before.taking, before.last) == (
                state.is_locked,
                state.taking,
                state.last,
            )
            assert same, self._complain("another state with the same version")

    def learn(self, number: int, fence: int) -> None:
        """The fence of a grant is always the same, and grows with the number."""
        assert self.fences.setdefault(number, fence) == fence, self._complain("another fence")
        for other, known in self.fences.items():
            assert (other < number, other == number) == (known < fence, known == fence), self._complain(
                "fences fell"
            )

    def check_events(self) -> None:
        """The events are the model's, in its order, and each is newer than the one before."""
        told = []
        for event in self.events:
            number = {fence: number for number, fence in self.fences.items()}.get(event.state.version.fence)
            told.append((event.kind, (number, event.state.version.step), event.triggered_by, event.saved))
        expected = [
            (kind, (version[0] if version[0] in self.fences else None, version[1]), by, saved)
            for kind, version, by, saved in self.model.events
        ]
        assert told == expected, self._complain("other events")
        for one, other in pairwise(event.state.version for event in self.events):
            assert one < other, self._complain("an event that is not newer")

    def _complain(self, what: str) -> str:
        return "\n".join([f"{self.document_id}: {what}", f"model: {self.model.hold}", *self.said[-8:]])


def _now_ms(state: LockState) -> int:
    return round(state.read_at * 1e6) // 1000
