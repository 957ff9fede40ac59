"""Connections to SQLite, each with the thread in which its driver works."""

from __future__ import annotations

import asyncio
import sqlite3
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import aiosqlite

if TYPE_CHECKING:
    from threading import Thread


class SqliteConnections:
    """Opens the connections of one engine as we want them, and knows all of them, so that closing leaves none behind.

    A statement that was cancelled runs on in its thread, which tells the event loop when it is done. Without waiting,
    that loop may be closed by then. And a connection whose making was cancelled at the last moment is in no pool.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._made: dict[Thread, aiosqlite.Connection] = {}

    def instead(self, _dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
        """Listen to the engine's "do_connect": what it opens is opened here.

        Its "connect" would be too late: what is cancelled while it connects never gets there, and has a thread too.
        """
        options["async_creator_fn"] = self._open

    async def end(self, within: float = 5) -> None:
        """Return when all are closed and no thread is at work, or after ``within`` seconds."""
        for connection in self._alive().values():
            connection.stop()  # pyright: ignore[reportUnknownMemberType] - its future has no type
        await asyncio.to_thread(self._join, monotonic() + within)

    def _join(self, give_up_at: float) -> None:
        for thread in self._alive():
            thread.join(max(0, give_up_at - monotonic()))

    def _alive(self) -> dict[Thread, aiosqlite.Connection]:
        return {thread: made for thread, made in self._made.items() if thread.is_alive()}

    def _open(self, *arguments: Any, **options: Any) -> aiosqlite.Connection:
        made = aiosqlite.Connection(lambda: self._connect(*arguments, **options), iter_chunk_size=64)
        # Private, but SQLAlchemy itself does the same, and there is no other way.
        thread: Thread = made._thread  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - see above
        thread.daemon = True
        self._made = {**self._alive(), thread: made}
        return made

    def _connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        """In the thread of the connection, so it may wait."""
        # The driver's own idea of when to begin a transaction is switched off: see `leasehold.server.db.engine`.
        options |= {"timeout": self._patience, "isolation_level": None}
        connection = sqlite3.connect(*arguments, **options)
        try:
            self._write_ahead(connection)
            # FULL: a save that was acknowledged survives a power cut.
            for pragma in ("synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        # It stays with the file, so only the first who come to a new one change it: each needs the file for itself,
        # and SQLite refuses at once where several want that. Its own patience is for transactions.
        give_up_at = monotonic() + self._patience
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError:
                if monotonic() > give_up_at:
                    raise
                sleep(0.01)
            else:
                return
