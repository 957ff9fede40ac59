"""The store of leases on Valkey or Redis: each verb is one script call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from leasehold.core.answers import DONE, Busy, Ended, Granted, LockInfo, Refusal
from leasehold.errors import StoreError
from leasehold.valkey import faults, scripts
from leasehold.valkey.keys import check_namespace, key_of
from leasehold.valkey.record import parse_holding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.core.answers import ReleaseAnswer, Renewal, RenewAnswer
    from leasehold.valkey.scripts import Script
    from leasehold.valkey.wire import Reply, Session, Wire, Word

_EVALSHA = b"EVALSHA"
_EVAL = b"EVAL"


class ValkeyStore:
    """Implements `leasehold.core.ports.Store` over any `Wire`."""

    def __init__(self, wire: Wire, *, namespace: str) -> None:
        self._wire = wire
        self._namespace = check_namespace(namespace)

    async def open(self) -> None:
        """See the port."""
        # A command and not just a connection: over a borrowed client only that shows anything.
        session = self._wire.session or await self._wire.open_session()
        reply = await session.call(("PING",))
        if isinstance(reply, StoreError):
            raise reply
        if isinstance(reply, Exception):
            raise faults.from_reply(str(reply), reply)

    async def acquire(self, name: str, *, token: str, ttl: float, floor: int, holder: str) -> Granted | Busy:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        words = self._words(
            scripts.ACQUIRE, name, token, _ms(ttl), _floor(session, floor), session.now_ms(), holder
        )
        reply = await session.call(words)
        if type(reply) is not int:
            reply = await self._checked(reply, scripts.ACQUIRE, words)
            if type(reply) is not int:
                fence, left_ms, holding = reply
                if fence:
                    return Granted(fence, _seconds(left_ms))
                held = parse_holding(holding)
                return Busy(held and held.holder, _seconds(left_ms))
        return Granted(reply, ttl)

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewAnswer]:
        """See the port."""
        commands = [
            self._words(scripts.RENEW, renewal.name, renewal.token, renewal.fence, _ms(renewal.ttl))
            for renewal in renewals
        ]
        try:
            session = self._wire.session or await self._wire.open_session()
            replies = await session.call_many(commands)
        except StoreError as error:
            return [error] * len(commands)
        return [
            await self._renew_answer(reply, words) for reply, words in zip(replies, commands, strict=True)
        ]

    async def release(self, name: str, *, token: str, fence: int) -> ReleaseAnswer:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        words = self._words(scripts.RELEASE, name, token, fence)
        reply = await session.call(words)
        if type(reply) is not int:
            reply = await self._checked(reply, scripts.RELEASE, words)
        return _done_or_ended(reply)

    async def take(
        self, name: str, *, token: str, ttl: float, floor: int, holder: str, expect_fence: int | None
    ) -> Granted | Refusal:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        words = self._words(
            scripts.TAKE,
            name,
            token,
            _ms(ttl),
            _floor(session, floor),
            session.now_ms(),
            holder,
            "" if expect_fence is None else expect_fence,
        )
        reply = await self._checked(await session.call(words), scripts.TAKE, words)
        fence, second, holding = reply
        if fence:
            return Granted(fence, _seconds(second))
        held = parse_holding(holding)
        return Refusal(second, held and held.holder)

    async def inspect(self, name: str) -> LockInfo:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        words = self._words(scripts.INSPECT, name)
        holding, left_ms, last_fence, waiters = await self._checked(
            await session.call(words), scripts.INSPECT, words
        )
        held = parse_holding(holding)
        if held is None:
            return LockInfo(name, None, int(last_fence) if last_fence else None, None, None, None, waiters)
        return LockInfo(name, "exclusive", held.fence, held.holder, held.since, _seconds(left_ms), waiters)

    async def close(self) -> None:
        """End every connection."""
        await self._wire.close()

    def after_fork(self) -> None:
        """In a child process: let go of the parent's connections."""
        self._wire.after_fork()

    def _words(self, script: Script, name: str, *arguments: Word) -> tuple[Word, ...]:
        key = key_of(self._namespace, name)
        return (
            _EVALSHA,
            script.sha,
            len(script.suffixes),
            *[key + suffix for suffix in script.suffixes],
            *arguments,
        )

    async def _checked(self, reply: Reply, script: Script, words: tuple[Word, ...]) -> Reply:
        """``reply`` if it is one; an error reply as the exception it stands for.

        A server that restarted, failed over or was told SCRIPT FLUSH has forgotten the script: NOSCRIPT
        says that nothing was done, so the whole text is sent and remembered again.
        """
        if isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT"):
            session = self._wire.session or await self._wire.open_session()
            reply = await session.call((_EVAL, script.source, *words[2:]))
        if isinstance(reply, StoreError):
            raise reply
        if isinstance(reply, Exception):
            raise faults.from_reply(str(reply), reply)
        return reply

    async def _renew_answer(self, reply: Reply, words: tuple[Word, ...]) -> RenewAnswer:
        try:
            return _done_or_ended(await self._checked(reply, scripts.RENEW, words))
        except StoreError as error:
            return error


def _done_or_ended(reply: int) -> ReleaseAnswer:
    if reply == 1:
        return DONE
    return Ended.TAKEN if reply < 0 else Ended.EXPIRED


def _ms(seconds: float) -> int:
    """Whole milliseconds, rounded up: the store must not end a lease before its holder does."""
    return math.ceil(seconds * 1000)


def _seconds(milliseconds: int) -> float:
    """Seconds; PTTL's negative answers (no key, no expiry) count as nothing left."""
    return max(milliseconds, 0) / 1000


def _floor(session: Session, floor: int) -> int | str:
    """The larger of the caller's floor and the session's; ``@`` tells the script to read the clock."""
    if session.floor is None:
        return f"@{floor}"
    return max(session.floor, floor)
