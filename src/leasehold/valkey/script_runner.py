"""Runs scripts over a transport: sends again what the server has forgotten, raises what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.errors import StoreError
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.transport import error_mapping

if TYPE_CHECKING:
    from leasehold.valkey.commands import Command
    from leasehold.valkey.transport.protocols import Call, Reply, Transport, Word


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
        reply = await connection.run(command, name, ())
        self.raise_if_error(reply)
        return reply

    async def run_many(self, calls: list[Call]) -> list[Reply]:
        """The replies to ``calls`` of one script; those that met NOSCRIPT are repeated, in one piece.

        Errors are among the replies, as values.
        """
        try:
            connection = await self._transport.get_connection()
            replies = list(await connection.run_many(calls))
            forgotten = [index for index, reply in enumerate(replies) if is_noscript(reply)]
            if forgotten:
                first, *others = [calls[index] for index in forgotten]
                assert isinstance(first.command, ScriptCommand)
                # The first call sends the source, so the others can refer to it.
                again = [first._replace(command=first.command.with_source), *others]
                connection = await self._transport.get_connection()
                for index, reply in zip(forgotten, await connection.run_many(again), strict=True):
                    replies[index] = reply
        except StoreError as error:
            return [error] * len(calls)
        return replies

    async def check(
        self, reply: Reply, command: ScriptCommand, name: str, arguments: tuple[Word, ...]
    ) -> Reply:
        """``reply`` unless it is an error, which is raised.

        A server forgets scripts when it restarts, fails over or runs SCRIPT FLUSH. NOSCRIPT means that
        nothing was done, so the source is sent, which loads the script again.
        """
        if is_noscript(reply):
            connection = await self._transport.get_connection()
            reply = await connection.run(command.with_source, name, arguments)
        self.raise_if_error(reply)
        return reply

    def raise_if_error(self, reply: Reply) -> None:
        """Raise an error reply as the exception it stands for."""
        if not isinstance(reply, Exception):
            return
        if isinstance(reply, StoreError):
            raise reply
        code = error_mapping.code_of(str(reply))
        if code == "READONLY":
            # No longer the primary. If it becomes one again, its data may be older than our floor, so
            # nothing may be granted over this connection again.
            self._transport.reset()
        if code in {"READONLY", "NOREPLICAS"} and self._transport.finds_primary:
            raise error_mapping.no_reply(
                f"this server is no longer the primary, or has too few replicas ({code})", reply
            )
        raise error_mapping.from_reply(str(reply), reply)


def is_noscript(reply: Reply) -> bool:
    """The server has forgotten the script."""
    return isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT")
