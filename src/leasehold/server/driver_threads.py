"""The threads in which SQLite's driver works."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiosqlite

if TYPE_CHECKING:
    from threading import Thread


class DriverThreads:
    """Knows the thread of every connection of one engine, so that closing can wait for them.

    A statement that was cancelled runs on in its thread, which tells the event loop when it is done. Without waiting,
    that loop may be closed by then.
    """

    def __init__(self) -> None:
        self._threads: WeakSet[Thread] = WeakSet()

    def note(self, _dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
        """Listen to the engine's "do_connect".

        Not to its "connect": what is cancelled while it connects never gets there, and has a thread all the same.
        """
        options["async_creator_fn"] = self._open

    async def end(self, within: float = 5) -> None:
        """Return when none of them is at work, or after ``within`` seconds."""
        await asyncio.to_thread(self._join, monotonic() + within)

    def _join(self, give_up_at: float) -> None:
        for thread in list(self._threads):
            if thread.is_alive():  # one that was never started cannot be joined
                thread.join(max(0, give_up_at - monotonic()))

    def _open(self, *arguments: Any, **options: Any) -> aiosqlite.Connection:
        connection = aiosqlite.connect(*arguments, **options)
        thread: Thread = connection._thread  # noqa: SLF001 - as SQLAlchemy itself does, and there is no other way
        thread.daemon = True
        self._threads.add(thread)
        return connection
