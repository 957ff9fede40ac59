"""Runs scripts over a transport: repeats what a server has forgotten or redirected, raises what it refuses."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from leasehold.core.replies import TooLate
from leasehold.errors import StoreError, StoreRefused
from leasehold.valkey.commands import ManyLocksCommand, ScriptCommand
from leasehold.valkey.transport import error_mapping
from leasehold.valkey.transport.protocols import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.core.replies import NotAfter
    from leasehold.valkey.commands import Command
    from leasehold.valkey.transport.protocols import Connection, Reply, Transport, Word

# Of these, one for a map that is out of date, and one for a slot that has just been moved.
_IMPATIENT_ROUNDS = 2
_REDIRECTIONS = ("MOVED ", "ASK ", "TRYAGAIN")


class ScriptRunner:
    """Runs the commands of the stores that share one transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def run(self, command: ScriptCommand, name: str, *arguments: Word) -> Reply:
        """The reply to a script on one lock."""
        connection = await self._transport.get_connection()
        return await self.check(await connection.run(command, name, arguments), command, name, arguments)

    async def get(self, command: Command, name: str) -> Reply:
        """The reply to a plain command on one lock."""
        connection = await self._transport.get_connection()
        return await self.check(await connection.run(command, name, ()), command, name, ())

    async def run_many(self, calls: Sequence[Call], *, is_patient: bool = True) -> list[Reply]:
        """The replies to ``calls`` of one script; see `_repeat`. Errors are among the replies, as values."""
        try:
            connection = await self._transport.get_connection()
            replies = list(await connection.run_many(calls))
            await self._repeat(calls, replies, is_patient=is_patient)
        except StoreError as error:
            return [error] * len(calls)
        return replies

    async def check(self, reply: Reply, command: Command, name: str, arguments: tuple[Word, ...]) -> Reply:
        """``reply`` unless it is an error, which is raised; see `_repeat` for those that are not final."""
        if isinstance(reply, Exception):
            replies = [reply]
            await self._repeat([Call(command, name, arguments)], replies)
            (reply,) = replies
            self.raise_if_error(reply)
        return reply

    async def run_before(
        self,
        not_after: NotAfter,
        command: ScriptCommand | ManyLocksCommand,
        name: str,
        arguments: Callable[[Connection, int], tuple[Word, ...]],
    ) -> Reply:
        """The reply to a script with a not-after.

        ``arguments`` gets the connection to the server that keeps the lock, and the not-after on its clock. So after a
        redirection it is called again.
        """
        started_at = time.monotonic()
        plain: Command | ManyLocksCommand = command
        while True:
            connection = await self._transport.get_connection(name)
            clock = connection.server_clock
            words = arguments(connection, clock.to_ms(not_after.at))
            not_after.is_sent = True
            reply = await connection.run(plain, name, words)
            redirect = self._transport.redirect if is_redirection(reply) else None
            is_forgotten = is_noscript(reply) and plain is command
            if redirect is None and not is_forgotten:
                break
            not_after.is_sent = False  # nothing was done
            if is_forgotten:
                plain = command.with_source
            elif redirect is not None:
                await redirect([Call(plain, name, words)], [reply], time.monotonic() - started_at)
        try:
            self.raise_if_error(reply)
        except TooLate as late:
            clock.read(late.store_ms)
            raise
        return reply

    async def _repeat(self, calls: Sequence[Call], replies: list[Reply], *, is_patient: bool = True) -> None:
        """Replace ``replies`` that say that nothing was done, and where or how to ask again; in one piece each time.

        A server forgets scripts when it restarts, fails over or runs SCRIPT FLUSH: the source is sent, which loads the
        script again. A node of a cluster redirects locks that another one keeps. A slot that is being moved is waited
        for, unless other calls would wait too and are not ``is_patient``.
        """
        again, started_at, rounds = list(calls), time.monotonic(), 0
        redirect, has_sent_source = self._transport.redirect, False
        while True:
            forgotten = [
                index
                for index, reply in enumerate(replies)
                if is_noscript(reply) and isinstance(again[index].command, ScriptCommand | ManyLocksCommand)
            ]
            moved = [
                index for index, reply in enumerate(replies) if redirect is not None and is_redirection(reply)
            ]
            if not forgotten and not moved:
                return
            # The first call sends the source, so the others can refer to it, unless they are for another node.
            for index in forgotten if has_sent_source else forgotten[:1]:
                again[index] = _with_source(again[index])
            has_sent_source = has_sent_source or bool(forgotten)
            if redirect is not None and moved:
                rounds += 1
                may_wait = is_patient or len(calls) == 1 or rounds <= _IMPATIENT_ROUNDS
                elapsed = time.monotonic() - started_at if may_wait else math.inf
                try:
                    connection = await redirect(
                        [again[index] for index in moved], [replies[index] for index in moved], elapsed
                    )
                except StoreRefused as refusal:
                    for index in moved:
                        replies[index] = refusal
                    continue
            else:
                connection = await self._transport.get_connection()
            wanted = forgotten + moved
            found = await connection.run_many([again[index] for index in wanted])
            for index, reply in zip(wanted, found, strict=True):
                replies[index] = reply

    def raise_if_error(self, reply: Reply) -> None:
        """Raise an error reply as the exception it stands for."""
        if not isinstance(reply, Exception):
            return
        if isinstance(reply, StoreError):
            raise reply
        code = error_mapping.code_of(str(reply))
        if code in {"READONLY", "CLUSTERDOWN"}:
            # No longer the primary, or cut off from its cluster. If it becomes one again, its data may be older than
            # our floor, so nothing may be granted over this connection again.
            self._transport.reset()
        if code in {"READONLY", "NOREPLICAS"} and self._transport.finds_primary:
            raise error_mapping.no_reply(
                f"this server is no longer the primary, or has too few replicas ({code})", reply
            )
        raise error_mapping.from_reply(str(reply), reply)


def _with_source(call: Call) -> Call:
    assert isinstance(call.command, ScriptCommand | ManyLocksCommand)
    return call._replace(command=call.command.with_source)


def is_noscript(reply: Reply) -> bool:
    """The server has forgotten the script."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")


def is_redirection(reply: Reply) -> bool:
    """A node of a cluster does not keep the lock, or not completely; nothing was done."""
    return isinstance(reply, Exception) and str(reply).startswith(_REDIRECTIONS)
