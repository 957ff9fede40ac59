"""Who is known under which number, so that what the store says unasked finds them."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from leasehold.core.replies import News

# Leases that nobody gave back stay known until so many have piled up.
_PILE = 1024
_EARLY_AT_MOST = 1024


class Addressee(Protocol):
    """A lease, or one who waits for it."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to tell."""
        ...

    def hear(self, news: News) -> None:
        """Take note of what the store said."""
        ...


class Tickets:
    """Gets `News` to their addressees, from whichever thread they come.

    News may overtake the answer that they follow: both arrive in one piece, but the caller reads its answer
    a moment later. So news for an unknown ticket are kept until somebody is known under it.
    """

    def __init__(self) -> None:
        # Counted on in a forked child, so that a lease of the parent's never has the number of one of ours.
        self.new = count(1).__next__
        self.clear()

    def clear(self) -> None:
        """In a forked child: know nobody."""
        self._known: dict[int, Addressee] = {}
        self._early: dict[int, News] = {}
        self._swept_size = 0

    def know(self, ticket: int, who: Addressee) -> None:
        """Have ``who`` told from now on, and at once of what has arrived already."""
        known = self._known
        known[ticket] = who
        if self._early and (news := self._early.pop(ticket, None)):
            who.hear(news)
        if len(known) > 2 * self._swept_size + _PILE:
            self._sweep()

    def forget(self, ticket: int) -> None:
        """Nobody is to be told any more."""
        self._known.pop(ticket, None)

    def tell(self, news: News) -> None:
        """Pass ``news`` on."""
        who = self._known.get(news.ticket)
        if who is None:
            if len(self._early) >= _EARLY_AT_MOST:
                self._early.clear()  # they were for callers who had gone
            self._early[news.ticket] = news
            # Looked up again: `know` may have run in another thread in between, and seen nothing early.
            who = self._known.get(news.ticket)
            if who is None:
                return
            self._early.pop(news.ticket, None)
        who.hear(news)

    def _sweep(self) -> None:
        # A copy, because other threads go on writing.
        for ticket, who in list(self._known.items()):
            if who.is_over:
                self._known.pop(ticket, None)
        self._swept_size = len(self._known)
