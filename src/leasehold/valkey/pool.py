"""The blocking wire: as many sockets as threads talk at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leasehold.errors import StoreUnavailable
from leasehold.valkey import codec, handshake
from leasehold.valkey.blocking_link import BlockingLink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.valkey.handshake import ServerFacts
    from leasehold.valkey.options import Options
    from leasehold.valkey.verb import Verb
    from leasehold.valkey.wire import Call, Reply, Word


class Pool:
    """Implements `leasehold.valkey.wire.Wire` for threads.

    A thread that talks has a socket to itself; idle sockets wait for the next one, the last used first.
    """

    session = None
    """There is no session at hand: each conversation takes a socket and puts it back."""

    def __init__(self, options: Options, *, clock: Callable[[], float]) -> None:
        self.facts: ServerFacts | None = None
        self._options = options
        self._clock = clock
        self._start_afresh()

    def _start_afresh(self) -> None:
        limit = self._options.max_connections
        self._idle: list[BlockingLink] = []
        self._places = None if limit is None else threading.BoundedSemaphore(limit)
        self._is_closed = False

    async def open_session(self) -> Turn:
        """A socket for one conversation."""
        if self._is_closed:
            raise StoreUnavailable("this client is closed")
        if self._places is not None and not self._places.acquire(timeout=self._options.timeout):
            raise StoreUnavailable(f"all {self._options.max_connections} connections are busy")
        try:
            try:
                link = self._idle.pop()
            except IndexError:
                link = self._connect()
        except BaseException:
            self._free_place()
            raise
        return Turn(self, link)

    def put_back(self, link: BlockingLink) -> None:
        """Take ``link`` back after a conversation."""
        if link.is_broken:
            # Its siblings were made for the same server and have most likely lost it too; a new caller
            # should not have to find that out one by one.
            self._drop_idle()
        elif self._is_closed:
            link.close()
        else:
            self._idle.append(link)
        self._free_place()

    async def close(self) -> None:
        """Close every idle socket now, and the others when their conversation is over."""
        self._is_closed = True
        self._drop_idle()

    def after_fork(self) -> None:
        """In a child process: close our copies of the parent's sockets, without a word on them."""
        self._drop_idle()
        self._start_afresh()

    def _connect(self) -> BlockingLink:
        options = self._options
        server = options.locate()
        link = BlockingLink(server, timeout=options.timeout, clock=self._clock)
        try:
            facts = link.greet(server, options.client_name, allow_eviction=options.allow_eviction)
        except BaseException:
            link.close()
            raise
        if self.facts is None:
            handshake.warn_about(facts, server)
        self.facts = facts
        return link

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _free_place(self) -> None:
        if self._places is not None:
            self._places.release()


class Turn:
    """Implements `leasehold.valkey.wire.Session` for one conversation, after which the socket goes back."""

    __slots__ = ("_link", "_pool", "deletes_if_equal", "floor", "now_ms")

    def __init__(self, pool: Pool, link: BlockingLink) -> None:
        self._pool = pool
        self._link = link
        self.floor = link.floor
        self.deletes_if_equal = link.deletes_if_equal
        self.now_ms = link.now_ms

    async def run(self, verb: Verb, name: str, arguments: tuple[Word, ...]) -> Reply:
        """The reply to one script."""
        return self._converse((verb.pack(name, arguments),))[0]

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many scripts, sent in one piece."""
        return self._converse([call.verb.pack(call.name, call.arguments) for call in calls])

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command."""
        return self._converse((codec.pack(words),))[0]

    def _converse(self, commands: Sequence[bytes]) -> list[Reply]:
        try:
            return self._link.exchange(commands)
        finally:
            self._pool.put_back(self._link)
