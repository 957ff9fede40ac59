"""The store of leases on Valkey or Redis: each operation is one script call."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, cast

from leasehold.core.replies import DONE, Busy, Ended, Granted, Hold, LockInfo, QueueState, Refusal
from leasehold.core.validity import to_ms
from leasehold.errors import StoreError, StoreRefused
from leasehold.valkey import notifications, scripts
from leasehold.valkey.commands import Command, ManyLocksCommand, ScriptCommand
from leasehold.valkey.keys import check_namespace, key_of, name_of, pattern_of
from leasehold.valkey.record import parse_holding
from leasehold.valkey.script_runner import ScriptRunner
from leasehold.valkey.transport.protocols import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.core.replies import (
        Done,
        Grant,
        LeaseKey,
        LockWaiters,
        Mode,
        NotAfter,
        Notification,
        ReleaseReply,
        Renewal,
        RenewReply,
        Request,
    )
    from leasehold.valkey.transport.protocols import Connection, Reply, Transport, Word


_log = logging.getLogger("leasehold")

# How long a release is remembered for a driver that repeats it: longer than any driver retries.
_REMEMBER_MS = 60_000
# Keys for one SCAN: few enough not to delay other commands.
_PAGE = 1000
_FOR_EVER_MS = 10**12
_MODES: dict[bytes, Mode] = {b"s": "shared"}


class ValkeyStore:
    """Implements `leasehold.core.ports.Store` over any `Transport`."""

    def __init__(self, transport: Transport, *, namespace: str, live: float, bare: str = "lock") -> None:
        check_namespace(namespace)
        self._transport = transport
        self._runner = ScriptRunner(transport)
        self._namespace = namespace
        self._live_ms = to_ms(live)
        self._acquire = ScriptCommand(namespace, scripts.ACQUIRE, bare)
        self._acquire_all = ManyLocksCommand(scripts.ACQUIRE_ALL)
        self._look = ScriptCommand(namespace, scripts.LOOK, bare)
        self._renew = ScriptCommand(namespace, scripts.RENEW, bare)
        self._shorten = ScriptCommand(namespace, scripts.SHORTEN, bare)
        self._check = ScriptCommand(namespace, scripts.CHECK, bare)
        self._release = ScriptCommand(namespace, scripts.RELEASE, bare)
        self._undo = ScriptCommand(namespace, scripts.RELEASE, bare, effect="undo")
        self._release_once = ScriptCommand(namespace, scripts.RELEASE_ONCE, bare)
        self._take = ScriptCommand(namespace, scripts.TAKE, bare)
        self._inspect = ScriptCommand(namespace, scripts.INSPECT, bare)
        self._acquire_all = ManyLocksCommand(scripts.ACQUIRE_ALL)
        self._delete_if_equal = Command(namespace, (b"DELIFEQ",), ("lock",), 1, bare)
        self._read_taken = Command(namespace, (b"GET",), ("taken",), 0, bare)

    @property
    def keeps_order(self) -> bool:
        """See the port."""
        return self._transport.keeps_order

    def part_of(self, name: str) -> object:
        """See the port."""
        return self._transport.part_of(name)

    def listen(self, deliver: Callable[[Notification], None], on_gap: Callable[[], None]) -> None:
        """See the port."""
        if self._transport.min_replicas:
            deliver = partial(_deliver_without_time, deliver)
        self._transport.listen(lambda payload: notifications.dispatch(payload, deliver), on_gap)

    async def open(self) -> None:
        """See the port."""
        connection = await self._transport.get_connection()
        # A command and not just a connection: a client of redis-py connects only for that.
        self._runner.raise_if_error(await connection.call("PING"))

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
        connection = self._transport.connection or await self._transport.get_connection()
        arguments = (
            *self._grant_arguments(connection, token, ticket, ttl, floor, holder, mode),
            _FOR_EVER_MS if wait is None else to_ms(wait),
            self._live_ms,
        )
        reply = await connection.run(self._acquire, name, arguments)
        if type(reply) is not int:
            reply = await self._runner.check(reply, self._acquire, name, arguments)
            if type(reply) is not int:
                if reply[0]:
                    # The record was written at the first attempt, and its exact text is not known.
                    return reply[0], _seconds(reply[1]), None
                return _busy(reply)
        return reply, ttl, arguments[0]

    async def acquire_all(
        self, requests: Sequence[Request], not_after: NotAfter
    ) -> Sequence[Grant] | str | None:
        """See the port."""
        names = [request.name for request in requests]
        if not self._transport.is_one_step(names):
            return None
        receipts: list[str] = []

        def words(connection: Connection, not_after_ms: int) -> tuple[Word, ...]:
            locks = [key_of(self._namespace, name) for name in names]
            keys: list[Word] = [key for lock in locks for key in (lock, lock + b":fence")]
            terms = [self._grant_arguments(connection, *request[1:]) for request in requests]
            receipts[:] = [record for record, *_ in terms]
            return len(keys), *keys, *(word for each in terms for word in (*each, not_after_ms))

        reply = await self._runner.run_before(not_after, self._acquire_all, names[0], words)
        if isinstance(reply, int):
            return names[reply - 1]
        # A record may differ from what we would write now; the release handles that.
        return [
            (fence, _seconds(left_ms), receipt)
            for (fence, left_ms), receipt in zip(reply, receipts, strict=True)
        ]

    async def look(self, polled: Sequence[LockWaiters]) -> Sequence[QueueState | StoreError]:
        """See the port."""
        channel = self._transport.channel
        calls = [
            Call(self._look, line.name, ("".join(line.tokens), channel, self._live_ms)) for line in polled
        ]
        return [self._seen(reply) for reply in await self._runner.run_many(calls, is_patient=False)]

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewReply]:
        """See the port."""
        calls = [
            Call(self._renew, renewal.name, (renewal.token, renewal.fence, to_ms(renewal.ttl)))
            for renewal in renewals
        ]
        return [self._renewed(reply) for reply in await self._runner.run_many(calls, is_patient=False)]

    async def shorten(self, renewal: Renewal, not_after: NotAfter) -> Done | Ended:
        """See the port."""
        name, token, fence, ttl, _ = renewal
        terms = (token, fence, to_ms(ttl))
        return _renewed(
            await self._runner.run_before(
                not_after, self._shorten, name, lambda _, not_after_ms: (*terms, not_after_ms)
            )
        )

    async def check(self, leases: Sequence[LeaseKey]) -> Sequence[RenewReply]:
        """See the port."""
        calls = [Call(self._check, lease.name, (lease.token, lease.fence)) for lease in leases]
        return [self._renewed(reply) for reply in await self._runner.run_many(calls, is_patient=False)]

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> ReleaseReply:
        """See the port. The receipt is the record as we wrote it.

        If the server supports DELIFEQ, that is six times cheaper than a script. It does nothing if the
        record is gone or has changed, and then the script finds out which.
        """
        connection = self._transport.connection or await self._transport.get_connection()
        if receipt is not None and connection.deletes_if_equal:
            if await connection.run(self._delete_if_equal, name, (receipt,)) == 1:
                return DONE
            connection = await self._transport.get_connection()
        # Without a fence it is for a request in doubt, which it must not overtake.
        command, arguments = self._release if fence else self._undo, (token,)
        if connection.may_ask_twice:
            command, arguments = self._release_once, (*arguments, _REMEMBER_MS)
        reply = await connection.run(command, name, arguments)
        if reply != 1:
            reply = await self._runner.check(reply, command, name, arguments)
            if reply != 1:
                return await self._find_end(name, fence)
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
        not_after: NotAfter,
    ) -> Grant | Refusal:
        """See the port."""
        expected = "" if expect_fence is None else expect_fence

        def arguments(connection: Connection, not_after_ms: int) -> tuple[Word, ...]:
            terms = self._grant_arguments(connection, token, ticket, ttl, floor, holder, mode)
            return *terms, expected, not_after_ms

        fence, second, public = await self._runner.run_before(not_after, self._take, name, arguments)
        if fence:
            return fence, _seconds(second), None
        held = parse_holding(public)
        return Refusal(second, held and held.holder)

    async def inspect(self, name: str) -> LockInfo:
        """See the port."""
        connection = await self._transport.get_connection()
        reply = await connection.run(self._inspect, name, ())
        return _info(name, await self._runner.check(reply, self._inspect, name, ()))

    async def page(self, pattern: str, cursor: object) -> tuple[object, Sequence[LockInfo]]:
        """See the port. A lock that exists all the time is on some page, occasionally on two.

        Records that cannot be read, such as those of another version, are left out and logged.
        """
        connection = await self._transport.get_connection()
        match = pattern_of(self._namespace, pattern)
        reply = await connection.call(
            "SCAN", cast("Word", cursor), "MATCH", match, "COUNT", _PAGE, "TYPE", "string"
        )
        self._runner.raise_if_error(reply)
        following, keys = reply
        names = [name for key in dict.fromkeys(keys) if (name := name_of(self._namespace, key)) is not None]
        replies = (
            await self._runner.run_many([Call(self._inspect, name, ()) for name in names]) if names else ()
        )
        found: list[LockInfo] = []
        for name, info_reply in zip(names, replies, strict=True):
            try:
                self._runner.raise_if_error(info_reply)
            except StoreRefused as refusal:
                _log.warning("%r cannot be listed: %s", name, refusal)
            else:
                info = _info(name, info_reply)
                if info.is_held or info.waiters:
                    found.append(info)
        # The cursor of a cluster is an object.
        return (int(following) if isinstance(following, bytes) else following), found

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    def after_fork(self) -> None:
        """In a child process: drop the parent's connections."""
        self._transport.after_fork()

    async def _find_end(self, name: str, fence: int) -> Ended:
        """Why a lease is gone; a command of its own, so that the common release does not pay for it."""
        try:
            reply = await self._runner.get(self._read_taken, name)
        except StoreError:
            return Ended.EXPIRED  # the end is certain; only the reason is unknown
        return Ended.TAKEN if reply is not None and int(reply) > fence else Ended.EXPIRED

    def _grant_arguments(
        self, connection: Connection, token: str, ticket: int, ttl: float, floor: int, holder: str, mode: Mode
    ) -> tuple[str, int, int | str]:
        """The arguments of every grant: record, ttl_ms, floor."""
        own_floor = connection.floor
        # "@" makes the script read the server's clock itself.
        least = f"@{floor}" if own_floor is None else max(floor, own_floor)
        kind = "x" if mode == "exclusive" else "s"
        record = f"2{kind}{token}{self._transport.channel}{ticket} 0 {connection.now_ms()} {holder}"
        return (record, to_ms(ttl), least)

    def _seen(self, reply: Reply) -> QueueState | StoreError:
        try:
            self._runner.raise_if_error(reply)
        except StoreError as error:
            return error
        now_ms, left_ms, *places = reply
        found = [_place(place) for place in places]
        if self._transport.min_replicas:
            found = [(place[0], 0.0, None) if isinstance(place, tuple) else place for place in found]
        return QueueState(now_ms / 1000, _seconds(left_ms), found)

    def _renewed(self, reply: Reply) -> RenewReply:
        try:
            self._runner.raise_if_error(reply)
        except StoreError as error:
            return error
        return _renewed(reply)


def _deliver_without_time(deliver: Callable[[Notification], None], notification: Notification) -> None:
    """Deliver a grant as one that has run out, so that the waiter asks again: the reply to that has been acknowledged.

    The grant itself was made in a script of another client, so nothing is known about its replicas.
    """
    if isinstance(notification, Granted):
        notification = notification._replace(remaining=0.0)
    deliver(notification)


def _renewed(reply: Reply) -> Done | Ended:
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
    """Seconds; PTTL's negative replies (no key, no expiry) count as nothing left."""
    return max(milliseconds, 0) / 1000
