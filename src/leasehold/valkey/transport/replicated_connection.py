"""Two connections to one server, where grants have to be acknowledged by replicas."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from leasehold.errors import StoreError
from leasehold.valkey.transport import error_mapping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from leasehold.valkey.commands import Command
    from leasehold.valkey.transport.acknowledgement import Acknowledgement
    from leasehold.valkey.transport.async_connection import AsyncConnection
    from leasehold.valkey.transport.protocols import Call, Reply, Word
    from leasehold.valkey.transport.server_clock import ServerClock

    _Waiting = tuple[Sequence[bytes], asyncio.Future[Sequence[Reply]]]


class ReplicatedConnection:
    """Implements `leasehold.valkey.transport.protocols.Connection` with one connection for grants and one for the rest.

    The server runs nothing else on a connection while that waits for replicas. So grants, renewals and what undoes them
    have a connection of their own, where their order settles doubt. When one of the two breaks, so does the other.
    """

    floor = None
    """Each grant reads the clock: the data are replicated."""

    may_ask_twice = False

    def __init__(
        self,
        plain: AsyncConnection,
        granting: AsyncConnection,
        acknowledgement: Acknowledgement,
        on_lost: Callable[[ReplicatedConnection], None],
    ) -> None:
        self.name = plain.name
        self.deletes_if_equal = plain.deletes_if_equal
        self._plain = plain
        self._granting = granting
        self._acknowledgement = acknowledgement
        self._on_lost = on_lost
        self._waiting: list[_Waiting] = []
        self._sender: asyncio.Task[None] | None = None
        plain.on_lost = granting.on_lost = self._lose

    @property
    def server_clock(self) -> ServerClock:
        """See the protocol."""
        return self._plain.server_clock

    @property
    def is_lost(self) -> bool:
        """One of the connections has broken."""
        return self._plain.is_lost or self._granting.is_lost

    def now_ms(self) -> int:
        """See the protocol."""
        return self._plain.now_ms()

    def run(self, command: Command, name: str, arguments: tuple[Word, ...]) -> Awaitable[Reply]:
        """See the protocol. A grant that too few replicas have acknowledged is a `NotReplicated`."""
        if command.effect == "grant":
            return self._run_grant(command.pack(name, arguments))
        connection = self._plain if command.effect == "other" else self._granting
        return connection.run(command, name, arguments)

    def run_many(self, calls: Sequence[Call]) -> Awaitable[Sequence[Reply]]:
        """See the protocol. The calls are of one command, but for what goes before each of them."""
        if calls and calls[-1].command.effect == "grant":
            return self._acknowledged([command.pack(name, arguments) for command, name, arguments in calls])
        return self._plain.run_many(calls)

    def call(self, *words: Word) -> Awaitable[Reply]:
        """See the protocol."""
        return self._plain.call(*words)

    async def subscribe(self, channel: str) -> BaseException | None:
        """Subscribe to ``channel``; returns the server's refusal, if it refuses."""
        return await self._plain.subscribe(channel)

    def close(self, reason: str) -> None:
        """Break both connections now. Pending requests fail: their outcome is unknown."""
        self._plain.close(reason)
        self._granting.close(reason)

    def detach(self) -> None:
        """In a forked child: drop the parent's connections without sending anything on them."""
        self._plain.detach()
        self._granting.detach()

    def _lose(self, lost: AsyncConnection) -> None:
        other = self._granting if lost is self._plain else self._plain
        if not other.is_lost:
            other.close("the other connection of the client was lost")
            self._on_lost(self)

    async def _run_grant(self, packed: bytes) -> Reply:
        (reply,) = await self._acknowledged([packed])
        return reply

    async def _acknowledged(self, commands: Sequence[bytes]) -> Sequence[Reply]:
        loop = asyncio.get_running_loop()
        replies: asyncio.Future[Sequence[Reply]] = loop.create_future()
        self._waiting.append((commands, replies))
        if self._sender is None:
            self._sender = loop.create_task(self._send_waiting(), name="leasehold-grants")
        return await replies

    async def _send_waiting(self) -> None:
        """Send all that waits with one WAIT behind it, again and again until nothing waits.

        What is issued in the meantime waits here: the server would not run it before, and would then wait for replicas
        once for each turn of the event loop, one after another.
        """
        sent: list[_Waiting] = []
        try:
            while self._waiting:
                await self._granting.wait_until_writable()
                # Sent in this very step: what undoes a request that is cancelled after it comes behind it.
                sent = [each for each in self._waiting if not each[1].done()]
                self._waiting = []
                if sent:
                    await self._send(sent)
        except asyncio.CancelledError:
            for _, future in (*sent, *self._waiting):
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - raised by the callers
            for _, future in (*sent, *self._waiting):
                if not future.done():
                    future.set_exception(
                        error_mapping.copy_of(error) if isinstance(error, StoreError) else error
                    )
        finally:
            self._waiting = []
            self._sender = None

    async def _send(self, waiting: list[_Waiting]) -> None:
        commands = [command for several, _ in waiting for command in several]
        *replies, acknowledged = await self._granting.request_many([*commands, self._acknowledgement.request])
        checked = iter(self._acknowledgement.check(replies, acknowledged))
        for several, future in waiting:
            own = [next(checked) for _ in several]
            if not future.done():
                future.set_result(own)
