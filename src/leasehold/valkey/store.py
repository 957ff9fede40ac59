"""The store of leases on Valkey or Redis: each verb is one script call."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasehold.core.replies import DONE, Busy, Ended, Hold, LockInfo, QueueState, Refusal
from leasehold.core.validity import to_ms
from leasehold.errors import StoreError, StoreRefused
from leasehold.valkey import notifications, scripts
from leasehold.valkey.commands import ScriptVerb, Verb
from leasehold.valkey.keys import check_namespace, key_of, name_of, pattern_of
from leasehold.valkey.record import parse_holding
from leasehold.valkey.script_runner import Runner, is_noscript
from leasehold.valkey.transport.protocols import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.core.replies import (
        Grant,
        LockWaiters,
        Mode,
        Notification,
        ReleaseReply,
        Renewal,
        RenewReply,
        Request,
    )
    from leasehold.valkey.transport.protocols import Reply, Session, Wire, Word


_log = logging.getLogger("leasehold")

# How long a release is remembered for a driver that repeats it: longer than any driver keeps trying.
_REMEMBER_MS = 60_000
# What SCAN looks at in one call: little enough not to keep others waiting.
_PAGE = 1000
_FOR_EVER_MS = 10**12
_MODES: dict[bytes, Mode] = {b"s": "shared"}


class ValkeyStore:
    """Implements `leasehold.core.ports.Store` over any `Wire`."""

    def __init__(self, wire: Wire, *, namespace: str, live: float, bare: str = "lock") -> None:
        check_namespace(namespace)
        self._wire = wire
        self._runner = Runner(wire)
        self._namespace = namespace
        self._live_ms = to_ms(live)
        self._acquire = ScriptVerb(namespace, scripts.ACQUIRE, bare)
        self._look = ScriptVerb(namespace, scripts.LOOK, bare)
        self._renew = ScriptVerb(namespace, scripts.RENEW, bare)
        self._release = ScriptVerb(namespace, scripts.RELEASE, bare)
        self._release_once = ScriptVerb(namespace, scripts.RELEASE_ONCE, bare)
        self._take = ScriptVerb(namespace, scripts.TAKE, bare)
        self._inspect = ScriptVerb(namespace, scripts.INSPECT, bare)
        self._delete_if_equal = Verb(namespace, (b"DELIFEQ",), ("lock",), 1, bare)
        self._read_taken = Verb(namespace, (b"GET",), ("taken",), 0, bare)

    @property
    def keeps_order(self) -> bool:
        """See the port."""
        return self._wire.keeps_order

    def listen(self, deliver: Callable[[Notification], None]) -> None:
        """See the port."""
        self._wire.listen(lambda payload: notifications.pass_on(payload, deliver))

    async def open(self) -> None:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        # A command and not just a connection: over a borrowed client only that shows anything.
        self._runner.raise_if_error(await session.call("PING"))

    async def acquire(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        wait: float | None,
    ) -> Grant | Busy:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        arguments = (
            *self._grant_arguments(session, token, ticket, ttl, floor, holder, mode),
            _FOR_EVER_MS if wait is None else to_ms(wait),
            self._live_ms,
        )
        reply = await session.run(self._acquire, name, arguments)
        if type(reply) is not int:
            reply = await self._runner.checked(reply, self._acquire, name, arguments)
            if type(reply) is not int:
                if reply[0]:
                    # The record was written when the token asked first, and is not known word for word.
                    return reply[0], _seconds(reply[1]), None
                return _busy(reply)
        return reply, ttl, arguments[0]

    async def acquire_all(self, requests: Sequence[Request]) -> Sequence[Grant] | str:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        keys: list[Word] = []
        arguments: list[Word] = []
        receipts: list[str] = []
        for request in requests:
            lock = key_of(self._namespace, request.name)
            keys += (lock, lock + b":fence")
            terms = self._grant_arguments(session, *request[1:])
            arguments += terms
            receipts.append(terms[0])
        script = scripts.ACQUIRE_ALL
        reply = await session.call("EVALSHA", script.sha, len(keys), *keys, *arguments)
        if is_noscript(reply):
            session = self._wire.session or await self._wire.open_session()
            reply = await session.call("EVAL", script.source, len(keys), *keys, *arguments)
        self._runner.raise_if_error(reply)
        if isinstance(reply, int):
            return requests[reply - 1].name
        # If a record is not as we would write it now, then the release finds out.
        return [
            (fence, _seconds(left_ms), receipt)
            for (fence, left_ms), receipt in zip(reply, receipts, strict=True)
        ]

    async def look(self, polled: Sequence[LockWaiters]) -> Sequence[QueueState | StoreError]:
        """See the port."""
        channel = self._wire.channel
        calls = [
            Call(self._look, line.name, ("".join(line.tokens), channel, self._live_ms)) for line in polled
        ]
        return [self._seen(reply) for reply in await self._runner.run_many(calls)]

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewReply]:
        """See the port."""
        calls = [
            Call(self._renew, renewal.name, (renewal.token, renewal.fence, to_ms(renewal.ttl)))
            for renewal in renewals
        ]
        return [self._renewed(reply) for reply in await self._runner.run_many(calls)]

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> ReleaseReply:
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
            verb, arguments = self._release_once, (*arguments, _REMEMBER_MS)
        reply = await session.run(verb, name, arguments)
        if reply != 1:
            reply = await self._runner.checked(reply, verb, name, arguments)
            if reply != 1:
                return await self._how_it_ended(name, fence)
        return DONE

    async def take(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        expect_fence: int | None,
    ) -> Grant | Refusal:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        expected = "" if expect_fence is None else expect_fence
        arguments = (
            *self._grant_arguments(session, token, ticket, ttl, floor, holder, mode),
            expected,
        )
        reply = await session.run(self._take, name, arguments)
        fence, second, public = await self._runner.checked(reply, self._take, name, arguments)
        if fence:
            return fence, _seconds(second), None
        held = parse_holding(public)
        return Refusal(second, held and held.holder)

    async def inspect(self, name: str) -> LockInfo:
        """See the port."""
        session = self._wire.session or await self._wire.open_session()
        reply = await session.run(self._inspect, name, ())
        return _info(name, await self._runner.checked(reply, self._inspect, name, ()))

    async def page(self, pattern: str, cursor: int) -> tuple[int, Sequence[LockInfo]]:
        """See the port. A lock that is there all the time is on some page; now and then it is on two.

        What cannot be read, because another version wrote it for instance, is left out with a word in the log.
        """
        session = self._wire.session or await self._wire.open_session()
        match = pattern_of(self._namespace, pattern)
        reply = await session.call("SCAN", cursor, "MATCH", match, "COUNT", _PAGE, "TYPE", "string")
        self._runner.raise_if_error(reply)
        following, keys = reply
        names = [name for key in dict.fromkeys(keys) if (name := name_of(self._namespace, key)) is not None]
        replies = (
            await self._runner.run_many([Call(self._inspect, name, ()) for name in names]) if names else ()
        )
        found: list[LockInfo] = []
        for name, answer in zip(names, replies, strict=True):
            try:
                self._runner.raise_if_error(answer)
            except StoreRefused as refusal:
                _log.warning("%r cannot be listed: %s", name, refusal)
            else:
                info = _info(name, answer)
                if info.is_held or info.waiters:
                    found.append(info)
        return int(following), found

    async def close(self) -> None:
        """End every connection."""
        await self._wire.close()

    def after_fork(self) -> None:
        """In a child process: let go of the parent's connections."""
        self._wire.after_fork()

    async def _how_it_ended(self, name: str, fence: int) -> Ended:
        """Why a lease is gone, asked only when it is: the common release need not carry the question."""
        try:
            session = self._wire.session or await self._wire.open_session()
            reply = await session.run(self._read_taken, name, ())
            self._runner.raise_if_error(reply)
        except StoreError:
            return Ended.EXPIRED  # that it is gone is certain; only the reason is not
        return Ended.TAKEN if reply is not None and int(reply) > fence else Ended.EXPIRED

    def _grant_arguments(
        self, session: Session, token: str, ticket: int, ttl: float, floor: int, holder: str, mode: Mode
    ) -> tuple[str, int, int | str]:
        """What acquire and take have in common: record, ttl_ms, floor."""
        own_floor = session.floor
        # "@" tells the script to read the server's clock itself.
        least = f"@{floor}" if own_floor is None else max(floor, own_floor)
        kind = "x" if mode == "exclusive" else "s"
        record = f"2{kind}{token}{self._wire.channel}{ticket} 0 {session.now_ms()} {holder}"
        return (record, to_ms(ttl), least)

    def _seen(self, reply: Reply) -> QueueState | StoreError:
        try:
            self._runner.raise_if_error(reply)
        except StoreError as error:
            return error
        now_ms, left_ms, *places = reply
        return QueueState(now_ms / 1000, _seconds(left_ms), [_place(place) for place in places])

    def _renewed(self, reply: Reply) -> RenewReply:
        try:
            self._runner.raise_if_error(reply)
        except StoreError as error:
            return error
        if reply == 1:
            return DONE
        return Ended.TAKEN if reply < 0 else Ended.EXPIRED


def _busy(reply: Reply) -> Busy:
    _, left_ms, public, kind, now_ms, waiters, position = reply
    held = parse_holding(public)
    return Busy(
        held and held.holder,
        _seconds(left_ms),
        held and held.since,
        _mode(kind),
        waiters,
        position or None,
        now_ms / 1000,
    )


def _info(name: str, reply: Reply) -> LockInfo:
    last_fence, waiters, kind, *holds = reply
    found: list[Hold] = []
    for fence, left_ms, public in holds:
        held = parse_holding(public)
        assert held is not None
        found.append(Hold(held.holder, held.since, _seconds(left_ms), fence))
    if not found:
        return LockInfo(name, None, int(last_fence) if last_fence else None, (), waiters)
    latest = max(hold.fence for hold in found) or None  # 0: the counter was deleted by hand
    return LockInfo(name, _mode(kind), latest, tuple(found), waiters)


def _place(place: Reply) -> int | Grant | None:
    if isinstance(place, int):
        return place or None
    fence, left_ms = place
    return fence, _seconds(left_ms), None


def _mode(kind: bytes) -> Mode | None:
    return _MODES.get(kind, "exclusive") if kind else None


def _seconds(milliseconds: int) -> float:
    """Seconds; PTTL's negative answers (no key, no expiry) count as nothing left."""
    return max(milliseconds, 0) / 1000
