"""The store of leases on Valkey or Redis: each verb is one script call."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from leasehold.core.answers import DONE, Busy, Ended, LockInfo, Refusal
from leasehold.errors import StoreError
from leasehold.valkey import faults, scripts
from leasehold.valkey.keys import check_namespace
from leasehold.valkey.record import parse_holding
from leasehold.valkey.verb import ScriptVerb, Verb
from leasehold.valkey.wire import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.core.answers import Grant, ReleaseAnswer, Renewal, RenewAnswer
    from leasehold.valkey.wire import Reply, Session, Wire, Word


# How long a release is remembered for a driver that repeats it: longer than any driver keeps trying.
_REMEMBER_MS = 60_000


class ValkeyStore:
    """Implements `leasehold.core.ports.Store` over any `Wire`."""

    def __init__(self, wire: Wire, *, namespace: str) -> None:
        check_namespace(namespace)
        self._wire = wire
        self._acquire = ScriptVerb(namespace, scripts.ACQUIRE)
        self._renew = ScriptVerb(namespace, scripts.RENEW)
        self._release = ScriptVerb(namespace, scripts.RELEASE)
        self._release_once = ScriptVerb(namespace, scripts.RELEASE_ONCE)
        self._take = ScriptVerb(namespace, scripts.TAKE)
        self._inspect = ScriptVerb(namespace, scripts.INSPECT)
        self._delete_if_equal = Verb(namespace, (b"DELIFEQ",), ("lock",), 1)
        self._read_taken = Verb(namespace, (b"GET",), ("taken",), 0)

    @property
    def keeps_order(self) -> bool:
        """See the port."""
        return self._wire.keeps_order

    async def open(self) -> None:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        # A command and not just a connection: over a borrowed client only that shows anything.
        self._raise_if_error(await session.call("PING"))

    async def acquire(self, name: str, token: str, ttl: float, floor: int, holder: str) -> Grant | Busy:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        arguments = _grant_arguments(session, token, ttl, floor, holder)
        reply = await session.run(self._acquire, name, arguments)
        if type(reply) is not int:
            reply = await self._checked(reply, self._acquire, name, arguments)
            if type(reply) is not int:
                fence, left_ms, public = reply
                if fence:
                    # The record was written when the token asked first, and is not known word for word.
                    return fence, _seconds(left_ms), None
                held = parse_holding(public)
                return Busy(held and held.holder, _seconds(left_ms))
        return reply, ttl, arguments[0]

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewAnswer]:
        """See the port."""
        calls = [
            Call(self._renew, renewal.name, (renewal.token, renewal.fence, _ms(renewal.ttl)))
            for renewal in renewals
        ]
        try:
            replies = await self._run_many(calls)
        except StoreError as error:
            return [error] * len(calls)
        return [self._renewed(reply) for reply in replies]

    async def _run_many(self, calls: list[Call]) -> list[Reply]:
        """The replies to ``calls``; those whose script was forgotten are asked again, in one piece."""
        session = self._wire.session or await self._wire.open_session()
        replies = list(await session.run_many(calls))
        forgotten = [index for index, reply in enumerate(replies) if _is_noscript(reply)]
        if forgotten:
            first, *others = [calls[index] for index in forgotten]
            again = [first._replace(verb=self._renew.in_full), *others]  # the first brings the script along
            session = self._wire.session or await self._wire.open_session()
            for index, reply in zip(forgotten, await session.run_many(again), strict=True):
                replies[index] = reply
        return replies

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> ReleaseAnswer:
        """See the port. The receipt is the record as we wrote it.

        Where the server can compare and delete by itself, that is six times cheaper than a script. It
        says no if the record is gone or has been changed, and then the script finds out which.
        """
        session = self._wire.session or await self._wire.open_session()
        if receipt is not None and session.deletes_if_equal:
            if await session.run(self._delete_if_equal, name, (receipt,)) == 1:
                return DONE
            session = self._wire.session or await self._wire.open_session()
        verb, arguments = self._release, (token,)
        if session.may_ask_twice:
            verb, arguments = self._release_once, (token, _REMEMBER_MS)
        reply = await session.run(verb, name, arguments)
        if reply != 1:
            reply = await self._checked(reply, verb, name, arguments)
            if reply != 1:
                return await self._how_it_ended(name, fence)
        return DONE

    async def take(
        self, name: str, token: str, ttl: float, floor: int, holder: str, expect_fence: int | None
    ) -> Grant | Refusal:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        expected = "" if expect_fence is None else expect_fence
        arguments = (*_grant_arguments(session, token, ttl, floor, holder), expected)
        reply = await session.run(self._take, name, arguments)
        fence, second, public = await self._checked(reply, self._take, name, arguments)
        if fence:
            return fence, _seconds(second), None
        held = parse_holding(public)
        return Refusal(second, held and held.holder)

    async def inspect(self, name: str) -> LockInfo:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        reply = await session.run(self._inspect, name, ())
        public, left_ms, last_fence = await self._checked(reply, self._inspect, name, ())
        fence = int(last_fence) if last_fence else None
        held = parse_holding(public)
        if held is None:
            return LockInfo(name, None, fence, None, None, None, 0)
        return LockInfo(name, "exclusive", fence, held.holder, held.since, _seconds(left_ms), 0)

    async def close(self) -> None:
        """End every connection."""
        await self._wire.close()

    def after_fork(self) -> None:
        """In a child process: let go of the parent's connections."""
        self._wire.after_fork()

    async def _checked(self, reply: Reply, verb: ScriptVerb, name: str, arguments: tuple[Word, ...]) -> Reply:
        """``reply`` if it is one; an error reply as the exception it stands for.

        A server that restarted, failed over or was told SCRIPT FLUSH has forgotten the script: NOSCRIPT
        says that nothing was done, so the whole text is sent, and remembered again.
        """
        if _is_noscript(reply):
            session = self._wire.session or await self._wire.open_session()
            reply = await session.run(verb.in_full, name, arguments)
        self._raise_if_error(reply)
        return reply

    async def _how_it_ended(self, name: str, fence: int) -> Ended:
        """Why a lease is gone, asked only when it is: the common release need not carry the question."""
        try:
            session = self._wire.session or await self._wire.open_session()
            reply = await session.run(self._read_taken, name, ())
            self._raise_if_error(reply)
        except StoreError:
            return Ended.EXPIRED  # that it is gone is certain; only the reason is not
        return Ended.TAKEN if reply is not None and int(reply) > fence else Ended.EXPIRED

    def _renewed(self, reply: Reply) -> RenewAnswer:
        try:
            self._raise_if_error(reply)
        except StoreError as error:
            return error
        if reply == 1:
            return DONE
        return Ended.TAKEN if reply < 0 else Ended.EXPIRED

    def _raise_if_error(self, reply: Reply) -> None:
        """Raise an error reply as the exception it stands for."""
        if not isinstance(reply, Exception):
            return
        if isinstance(reply, StoreError):
            raise reply
        if str(reply).startswith("READONLY"):
            # Not the primary any more. If it becomes one again, its data may be older than our floor,
            # so nothing may be granted on this session again.
            self._wire.start_over()
        raise faults.from_reply(str(reply), reply)


def _grant_arguments(
    session: Session, token: str, ttl: float, floor: int, holder: str
) -> tuple[str, int, int | str]:
    """What acquire and take have in common: record, ttl_ms, floor."""
    own_floor = session.floor
    # "@" tells the script to read the server's clock itself.
    least = f"@{floor}" if own_floor is None else max(floor, own_floor)
    return (f"1x{token}{session.now_ms()} {holder}", _ms(ttl), least)


def _is_noscript(reply: Reply) -> bool:
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")


def _ms(seconds: float) -> int:
    """Whole milliseconds, rounded up: the store must not end a lease before its holder does."""
    return ceil(seconds * 1000)


def _seconds(milliseconds: int) -> float:
    """Seconds; PTTL's negative answers (no key, no expiry) count as nothing left."""
    return max(milliseconds, 0) / 1000
