"""Passwords: how they are stored, and how many logins are checked at once."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest
from argon2 import PasswordHasher

from leasehold import RateLimited
from leasehold.server.auth.passwords import Passwords

if TYPE_CHECKING:
    from collections.abc import Iterator

QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Slow(PasswordHasher):
    """A hasher that waits for an event, and records its threads."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.go_on = threading.Event()
        self.began = threading.Semaphore(0)
        self.running = 0
        self.most = 0
        self.threads: set[int] = set()
        self._turn = threading.Lock()

    def verify(self, against: str | bytes, password: str | bytes) -> bool:
        with self._turn:
            self.running += 1
            self.most = max(self.most, self.running)
            self.threads.add(threading.get_ident())
        self.began.release()
        try:
            assert self.go_on.wait(30)
            return super().verify(against, password)
        finally:
            with self._turn:
                self.running -= 1


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    made = Passwords(QUICK)
    yield made
    made.close()


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.go_on.set()


async def test_the_right_password_is_right_and_others_are_not(passwords: Passwords) -> None:
    kept = await passwords.hash("correct horse")
    assert await passwords.verify("correct horse", kept)
    assert not await passwords.verify("Correct horse", kept)
    assert not await passwords.verify("", kept)
    assert not await passwords.verify("correct horse ", kept)


async def test_the_stored_hash_does_not_show_the_password(passwords: Passwords) -> None:
    first, second = await passwords.hash("canary-51c2"), await passwords.hash("canary-51c2")
    assert first.startswith("$argon2id$")
    assert "canary" not in first
    assert first != second


async def test_an_unknown_user_matches_no_password(passwords: Passwords) -> None:
    assert not await passwords.verify("anything", None)


async def test_a_value_that_is_no_hash_matches_no_password(passwords: Passwords) -> None:
    assert not await passwords.verify("", "")
    assert not await passwords.verify("none", "none")


async def test_two_ways_to_write_an_accent_are_one_password(passwords: Passwords) -> None:
    assert await passwords.verify("cafe\u0301 au lait", await passwords.hash("caf\u00e9 au lait"))


async def test_a_password_may_hold_anything(passwords: Passwords) -> None:
    strange = "\0 🔑 " * 50
    assert await passwords.verify(strange, await passwords.hash(strange))
    assert not await passwords.verify(strange[:-1], await passwords.hash(strange))


async def test_a_hash_with_other_costs_is_outdated(passwords: Passwords) -> None:
    assert not passwords.is_outdated(await passwords.hash("correct horse"))
    assert passwords.is_outdated(PasswordHasher(time_cost=2, memory_cost=16, parallelism=1).hash("x"))


async def test_the_event_loop_runs_while_a_password_is_checked(slow: Slow) -> None:
    passwords = Passwords(slow)
    kept = slow.hash("correct horse")
    checking = asyncio.create_task(passwords.verify("correct horse", kept))
    # If it ran in this thread, it would wait here forever: only this thread sets the event.
    await asyncio.to_thread(slow.began.acquire)
    assert not checking.done()
    slow.go_on.set()
    assert await checking
    assert threading.get_ident() not in slow.threads
    passwords.close()


async def test_only_a_few_are_checked_at_once(slow: Slow) -> None:
    passwords = Passwords(slow, at_once=2)
    kept = slow.hash("correct horse")
    crowd = [asyncio.create_task(passwords.verify("correct horse", kept)) for _ in range(12)]
    for _ in range(2):
        await asyncio.to_thread(slow.began.acquire)
    slow.go_on.set()
    assert all(await asyncio.gather(*crowd))
    assert slow.most <= 2
    passwords.close()


async def test_logins_over_the_limit_are_refused_and_can_be_retried(slow: Slow) -> None:
    passwords = Passwords(slow, at_once=1, waiting=3)
    kept = slow.hash("correct horse")
    crowd = [asyncio.create_task(passwords.verify("correct horse", kept)) for _ in range(10)]
    await asyncio.sleep(0)
    with pytest.raises(RateLimited) as sent_away:
        await passwords.verify("correct horse", kept)
    assert sent_away.value.retry_after > 0
    slow.go_on.set()
    answers = await asyncio.gather(*crowd, return_exceptions=True)
    assert [answer for answer in answers if answer is True] == [True] * 4
    assert sum(isinstance(answer, RateLimited) for answer in answers) == 6
    assert await passwords.verify("correct horse", kept)
    passwords.close()


async def test_a_cancelled_login_keeps_its_place_until_its_check_ends(slow: Slow) -> None:
    passwords = Passwords(slow, at_once=1, waiting=0)
    kept = slow.hash("correct horse")
    first = asyncio.create_task(passwords.verify("correct horse", kept))
    await asyncio.to_thread(slow.began.acquire)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    with pytest.raises(RateLimited):
        await passwords.verify("correct horse", kept)
    slow.go_on.set()
    passwords.close()


async def test_unknown_users_take_as_long_as_known_ones() -> None:
    """Compared by CPU time, in turns, and by the least of several, so that a busy machine does not matter."""
    passwords = Passwords(PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1), at_once=1)
    kept = await passwords.hash("correct horse")

    async def cost(password_hash: str | None) -> float:
        began = time.process_time()
        assert not await passwords.verify("a wrong one", password_hash)
        return time.process_time() - began

    costs = [(await cost(kept), await cost(None)) for _ in range(8)]
    known, unknown = (min(each) for each in zip(*costs, strict=True))
    assert unknown > known / 2
    passwords.close()
