"""How the store talks to a server, whatever carries the words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leasehold.core.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from leasehold.valkey.commands import Verb

Word = bytes | str | int
Reply = Any
"""What a server answered: bytes, int, list, None or, for an error reply, an exception as a value."""

RECONNECT_BACKOFF = Backoff(first=0.02, cap=0.5)
"""The pauses between attempts to connect again."""


class Call(NamedTuple):
    """A script to run on a lock."""

    verb: Verb
    name: str
    arguments: tuple[Word, ...]


class Session(Protocol):
    """One connection to one server, from one handshake to the moment it breaks.

    ``floor`` and ``now_ms`` belong to the session because they come from the clock of the very server
    that its commands go to.
    """

    @property
    def floor(self) -> int | None:
        """The server's clock in microseconds when the session began; None if reconnects are not seen."""
        ...

    @property
    def deletes_if_equal(self) -> bool:
        """Whether the server knows DELIFEQ."""
        ...

    @property
    def may_ask_twice(self) -> bool:
        """Whether a command may be repeated below us, after a lost reply, without our knowing."""
        ...

    def now_ms(self) -> int:
        """About what the server's clock shows now, for showing to people."""
        ...

    def run(self, verb: Verb, name: str, arguments: tuple[Word, ...]) -> Awaitable[Reply]:
        """The reply to one script; raises `StoreUnavailable` if there is none."""
        ...

    def run_many(self, calls: Sequence[Call]) -> Awaitable[Sequence[Reply]]:
        """The replies to many scripts sent in one piece; an unknown one is a `StoreUnavailable`."""
        ...

    def call(self, *words: Word) -> Awaitable[Reply]:
        """The reply to any other command."""
        ...


class Wire(Protocol):
    """Where sessions come from."""

    @property
    def session(self) -> Session | None:
        """The session at hand, None if one must be opened first."""
        ...

    async def open_session(self) -> Session:
        """A session, as soon as there is one; `StoreUnavailable` or `StoreRefused` if there is none."""
        ...

    @property
    def channel(self) -> str:
        """The 16 hexadecimal digits under which this client can be told something; another one after a fork."""
        ...

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Call ``hear`` with whatever is published for this client, as far as it can be heard."""
        ...

    @property
    def keeps_order(self) -> bool:
        """Whether everything goes over one connection, so that order is kept even without waiting."""
        ...

    def start_over(self) -> None:
        """End the sessions that there are: the server is not what it was when they began."""
        ...

    async def close(self) -> None:
        """End every connection."""
        ...

    def after_fork(self) -> None:
        """In a child process: let go of the parent's connections without a word on them."""
        ...


class ListeningWire(Wire, Protocol):
    """A wire over which channels of others can be heard as well."""

    async def subscribe(
        self, channel: str, hear: Callable[[bytes], None], resumed: Callable[[], None]
    ) -> bool:
        """Call ``hear`` with whatever is published on ``channel``; False if nothing can be heard.

        What is published while the connection is away is lost: ``resumed`` is called after every such gap.
        """
        ...
