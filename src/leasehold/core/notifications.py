"""Routes notifications of the store to waiters and leases, by ticket number."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from leasehold.core.replies import Notification

# Leases that were never released stay registered until so many have piled up.
_PILE = 1024
_EARLY_AT_MOST = 1024


class Recipient(Protocol):
    """A lease or a waiter."""

    @property
    def is_over(self) -> bool:
        """Whether no notification matters any longer."""
        ...

    def receive(self, notification: Notification) -> None:
        """Note what the store said."""
        ...

    def receive_early(self, notification: Notification) -> None:
        """Note what the store said before the reply: perhaps about an earlier grant, whose reply was lost."""
        ...

    def is_for(self, engine: object, name: str) -> bool:
        """Return whether this is a lease of ``engine`` that holds the lock."""
        ...

    def after_gap(self) -> None:
        """Have the store asked: notifications may have been missed."""
        ...


class NotificationRouter:
    """Delivers each `Notification` to the recipient of its ticket, from whichever thread it comes.

    A notification may overtake the reply that it follows: both arrive in one piece, but the caller reads its reply
    a moment later. So a notification for an unknown ticket is kept until a recipient is registered.
    """

    def __init__(self) -> None:
        # Continued in a forked child, so that a lease of the parent never has the number of one of the child's.
        self.new_ticket = count(1).__next__
        self.clear()

    def clear(self) -> None:
        """In a forked child: drop every recipient of the parent."""
        self._recipients: dict[int, Recipient] = {}
        self._early: dict[int, Notification] = {}
        self._swept_size = 0
        self._gap_ticket = 0

    def register(self, ticket: int, recipient: Recipient) -> None:
        """Deliver to ``recipient`` from now on, and at once what has arrived already."""
        recipients = self._recipients
        recipients[ticket] = recipient
        if self._early and (notification := self._early.pop(ticket, None)):
            recipient.receive_early(notification)
        if ticket < self._gap_ticket:  # requested before the gap, and perhaps granted before it too
            recipient.after_gap()
        if len(recipients) > 2 * self._swept_size + _PILE:
            self._sweep()

    def unregister(self, ticket: int) -> None:
        """Deliver nothing more for ``ticket``."""
        self._recipients.pop(ticket, None)

    def deliver(self, notification: Notification) -> None:
        """Pass ``notification`` to its recipient."""
        recipient = self._recipients.get(notification.ticket)
        if recipient is None:
            if len(self._early) >= _EARLY_AT_MOST:
                self._early.clear()  # their callers have gone
            self._early[notification.ticket] = notification
            # Looked up again: `register` may have run in another thread in between, before this was in `_early`.
            recipient = self._recipients.get(notification.ticket)
            if recipient is None:
                return
            self._early.pop(notification.ticket, None)
        recipient.receive(notification)

    def recipients(self) -> list[Recipient]:
        """Return a copy, because other threads go on writing."""
        return list(self._recipients.values())

    def report_gap(self) -> None:
        """Have the store asked about every recipient: notifications may have been missed until now."""
        self._gap_ticket = self.new_ticket()
        for recipient in self.recipients():
            recipient.after_gap()

    def _sweep(self) -> None:
        # A copy, because other threads go on writing.
        for ticket, recipient in list(self._recipients.items()):
            if recipient.is_over:
                self._recipients.pop(ticket, None)
        self._swept_size = len(self._recipients)
