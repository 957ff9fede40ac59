"""SQLite connections, each with the thread of its driver."""

from __future__ import annotations

import asyncio
import sqlite3
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import aiosqlite

if TYPE_CHECKING:
    from threading import Thread


class SqliteConnections:
    """Opens the connections of one engine, and records them, so that closing leaves none behind.

    A cancelled statement runs on in its thread, which calls the event loop when it is done. Without waiting, that loop
    may be closed by then. And a connection that was cancelled while it connected is in no pool.
    """

    def __init__(self, *, timeout: float) -> None:
        self._timeout = timeout
        self._opened: dict[Thread, aiosqlite.Connection] = {}

    def on_connect(
        self, _dialect: object, _record: object, _arguments: object, options: dict[str, Any]
    ) -> None:
        """A listener of the engine's "do_connect" that opens the connection here.

        "connect" would be too late: a connection that is cancelled while it connects never gets there, but has a thread.
        """
        options["async_creator_fn"] = self._open

    async def close(self, within: float = 5) -> None:
        """Close all connections. Returns when their threads have ended, or after ``within`` seconds."""
        for connection in self._alive().values():
            connection.stop()  # pyright: ignore[reportUnknownMemberType] - its future has no type
        await asyncio.to_thread(self._join, monotonic() + within)

    def _join(self, give_up_at: float) -> None:
        for thread in self._alive():
            thread.join(max(0, give_up_at - monotonic()))

    def _alive(self) -> dict[Thread, aiosqlite.Connection]:
        return {thread: made for thread, made in self._opened.items() if thread.is_alive()}

    def _open(self, *arguments: Any, **options: Any) -> aiosqlite.Connection:
        made = aiosqlite.Connection(lambda: self._connect(*arguments, **options), iter_chunk_size=64)
        # Private, but SQLAlchemy uses it too, and there is no other way.
        thread: Thread = made._thread  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - see above
        thread.daemon = True
        self._opened = {**self._alive(), thread: made}
        return made

    def _connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        """Connect. This runs in the thread of the connection, so it may block."""
        # The driver's implicit transactions are off: see `leasehold.server.db.engine`.
        options |= {"timeout": self._timeout, "isolation_level": None}
        connection = sqlite3.connect(*arguments, **options)
        try:
            self._enable_wal(connection)
            # FULL, so that an acknowledged save survives a power cut.
            for pragma in ("synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _enable_wal(self, connection: sqlite3.Connection) -> None:
        # The mode is stored in the file, so only the first connections to a new one change it. Each needs exclusive
        # access, which SQLite refuses at once if several want it: its own timeout is for transactions only.
        give_up_at = monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError:
                if monotonic() > give_up_at:
                    raise
                sleep(0.01)
            else:
                return
