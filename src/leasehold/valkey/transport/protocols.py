"""Protocols of the transport: what the store needs in order to send commands to a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leasehold.core.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from leasehold.valkey.commands import Command
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.server_clock import ServerClock

Word = bytes | str | int
Reply = Any
"""A server's reply: bytes, int, list, None or, for an error reply, an exception as a value."""

RECONNECT_BACKOFF = Backoff(first=0.02, cap=0.5)
"""The pauses between attempts to connect again."""


class Call(NamedTuple):
    """A command to run on a lock."""

    command: Command
    name: str
    arguments: tuple[Word, ...]


class Connection(Protocol):
    """One connection to one server, from its handshake until it breaks.

    ``floor``, ``now_ms`` and ``server_clock`` belong to the connection because they come from the clock of the very server
    that its commands go to.
    """

    @property
    def floor(self) -> int | None:
        """The server's clock in microseconds at the handshake; None if each grant must read the clock."""
        ...

    @property
    def deletes_if_equal(self) -> bool:
        """The server supports DELIFEQ."""
        ...

    @property
    def may_ask_twice(self) -> bool:
        """A driver below may silently repeat a command after a lost reply."""
        ...

    @property
    def server_clock(self) -> ServerClock:
        """The server's clock as last read, for requests with a not-after."""
        ...

    def now_ms(self) -> int:
        """The server's clock, approximately: for display."""
        ...

    def run(self, command: Command, name: str, arguments: tuple[Word, ...]) -> Awaitable[Reply]:
        """The reply to one command on a lock; raises `StoreUnavailable` if there is none."""
        ...

    def run_many(self, calls: Sequence[Call]) -> Awaitable[Sequence[Reply]]:
        """The replies to many commands sent in one piece; a missing one is a `StoreUnavailable`."""
        ...

    def call(self, *words: Word) -> Awaitable[Reply]:
        """The reply to any other command."""
        ...


class Redirect(Protocol):
    """Finds out where to repeat calls that a server has redirected, without having done anything."""

    async def __call__(
        self, calls: Sequence[Call], replies: Sequence[Reply], elapsed: float
    ) -> BatchConnection:
        """The connection for that; `StoreRefused` once redirections have ``elapsed`` for the whole timeout."""
        ...


class BatchConnection(Protocol):
    """The part of a connection that sends many commands."""

    def run_many(self, calls: Sequence[Call]) -> Awaitable[Sequence[Reply]]:
        """See `Connection`."""
        ...


class Transport(Protocol):
    """Opens connections to one store, and opens them again after they break."""

    @property
    def connection(self) -> Connection | None:
        """The open connection; None if `get_connection` has to provide one."""
        ...

    async def get_connection(self, name: str | None = None) -> Connection:
        """The open connection, or a new one; `StoreUnavailable` or `StoreRefused` if there is none.

        With ``name`` it is a connection to the very server that keeps this lock, for what depends on its clock.
        """
        ...

    def part_of(self, name: str) -> object:
        """The part of the store that keeps the lock: an equal value for locks of the same server."""
        ...

    def is_one_step(self, names: Sequence[str]) -> bool:
        """Whether one script may change all of these locks."""
        ...

    @property
    def redirect(self) -> Redirect | None:
        """Follows the redirections of a cluster; None if there are none."""
        ...

    @property
    def channel(self) -> str:
        """The 16 hexadecimal digits of this client's notification channel; they change after a fork."""
        ...

    def listen(self, handle: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        """Call ``handle`` with every notification for this client that can be received.

        ``on_gap`` is called when the subscription is in force, if notifications may have been missed before.
        """
        ...

    @property
    def keeps_order(self) -> bool:
        """A command that undoes is run after the request in doubt, even if no reply to that was awaited."""
        ...

    @property
    def min_replicas(self) -> int:
        """How many replicas have to acknowledge a grant of ours; the reply to one that they have not is `NotReplicated`."""
        ...

    @property
    def finds_primary(self) -> bool:
        """It looks for the server that is the primary: one that refuses writes will be replaced by another."""
        ...

    @property
    def sentinels(self) -> tuple[Endpoint, ...]:
        """Those of the URL, and those that they know; none if the URL names a server."""
        ...

    @property
    def server(self) -> Endpoint | None:
        """How to log in to the servers, and their service; None if that is not known."""
        ...

    async def ask_other(self, server: Endpoint, commands: Sequence[tuple[Word, ...]]) -> Sequence[Reply]:
        """The replies of another server of the store, over a connection of its own without a handshake."""
        ...

    def reset(self) -> None:
        """Close the open connections: the server has changed since they were made."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...

    def after_fork(self) -> None:
        """In a child process: drop the parent's connections without sending anything on them."""
        ...


class PubSubTransport(Transport, Protocol):
    """A transport that can also subscribe to channels that clients share."""

    async def subscribe(
        self, channel: str, handle: Callable[[bytes], None], on_resumed: Callable[[], None]
    ) -> bool:
        """Call ``handle`` with what is published on ``channel``; False if subscribing is impossible.

        What is published while the connection is down is lost: ``on_resumed`` is called after every such gap.
        """
        ...
