"""Cleaning up after requests that ended in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core.agenda import Agenda
from leasehold.core.answers import Done
from leasehold.errors import StoreError

if TYPE_CHECKING:
    from leasehold.core.ports import Clock, Concurrency, Store

_RETRY_EVERY = 0.25


class Orphan:
    """A grant that the store may hold although nobody knows of it.

    It would end by itself at ``until``, so there is nothing to clean up after that. ``look_again`` says
    that the request may still be on its way: a connection was dropped with the request in it, and the
    server may read it after it has answered us on the next connection.
    """

    __slots__ = ("look_again", "name", "token", "until")

    def __init__(self, name: str, token: str, *, until: float, look_again: bool) -> None:
        self.name = name
        self.token = token
        self.until = until
        self.look_again = look_again


class Settler:
    """Takes orphaned grants back, each by its own token, without anybody having to wait for it."""

    def __init__(self, store: Store, clock: Clock, concurrency: Concurrency, *, patience: float) -> None:
        self._store = store
        self._clock = clock
        self._concurrency = concurrency
        self._patience = patience
        self._in_doubt: set[Orphan] = set()
        self._all_clear = concurrency.signal()
        self._agenda: Agenda[Orphan] = Agenda(
            clock, concurrency.signal(), is_live=lambda _when, _orphan: True
        )

    def adopt(self, orphan: Orphan) -> None:
        """See to it that ``orphan`` ends as soon as the store can be reached."""
        self._in_doubt.add(orphan)
        self._all_clear.clear()
        self._agenda.put(self._clock.now(), orphan)

    async def all_clear(self, timeout: float) -> bool:
        """Wait until nothing is in doubt any more; False if that took longer than ``timeout``.

        A second look that is merely a precaution is not waited for.
        """
        return not self._in_doubt or await self._all_clear.wait(timeout)

    def stop(self) -> None:
        """End `run` soon. What is still in doubt ends with its ttl."""
        self._agenda.stop()

    async def run(self) -> None:
        """Work until stopped."""
        while due := await self._agenda.due():
            for orphan in due:
                self._concurrency.spawn(self._settle(orphan))

    async def _settle(self, orphan: Orphan) -> None:
        try:
            # Fence 0: it only serves to tell "taken" from "expired", and nobody is left to be told.
            answer = await self._store.release(orphan.name, orphan.token, 0, None)
        except StoreError:
            orphan.look_again = True
            self._try_again(orphan, _RETRY_EVERY)
            return
        self._in_doubt.discard(orphan)
        if not self._in_doubt:
            self._all_clear.set()
        if orphan.look_again and not isinstance(answer, Done):
            orphan.look_again = False
            self._try_again(orphan, self._patience)

    def _try_again(self, orphan: Orphan, pause: float) -> None:
        again_at = self._clock.now() + pause
        if again_at < orphan.until:
            self._agenda.put(again_at, orphan)
        else:
            self._in_doubt.discard(orphan)
            if not self._in_doubt:
                self._all_clear.set()
