"""Who a socket's first message speaks for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasehold.documents.live.tickets import Admission
from leasehold.documents.principal import principal_of
from leasehold.errors import NotSignedIn

if TYPE_CHECKING:
    from leasehold.documents.live.messages import Credentials
    from leasehold.documents.live.tickets import Tickets
    from leasehold.documents.live.worker_notices import Notices
    from leasehold.documents.principal import Authenticate


class Admitting:
    """By a ticket, or by a token if the host application knows what to make of it."""

    def __init__(self, authenticate: Authenticate | None, *, tickets: Tickets, notices: Notices) -> None:
        self._authenticate = authenticate
        self._tickets = tickets
        self._notices = notices

    async def admit(self, credentials: Credentials) -> Admission:
        """Who it is; raises `NotSignedIn` if they are not good, or not any more."""
        if credentials.ticket is not None:
            admission = await self._tickets.use(credentials.ticket)
        elif self._authenticate is not None:
            # Read before: an end that comes while the token is looked at counts.
            since_ms = self._notices.now_ms() or int(time.time() * 1000)
            user = await self._authenticate(credentials.token or "")
            admission = None if user is None else Admission(principal_of(user), since_ms)
        else:
            raise NotSignedIn("sockets are let in by tickets here, not by tokens")
        if admission is None or time.time() >= admission.principal.expires_at:
            raise NotSignedIn("this token or ticket is not good, or not any more")
        return admission
