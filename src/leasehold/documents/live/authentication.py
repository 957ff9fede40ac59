"""Authenticates a socket by its first message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from leasehold.documents.ports import principal_of
from leasehold.documents.store.tickets import Admission
from leasehold.errors import NotSignedIn

if TYPE_CHECKING:
    from leasehold.documents.live.messages import Credentials
    from leasehold.documents.live.worker_notices import WorkerNotices
    from leasehold.documents.ports import Authenticate
    from leasehold.documents.store.tickets import Tickets


class SocketAuthenticator:
    """Verifies tickets, and tokens if the host application provides ``authenticate``."""

    def __init__(
        self, authenticate: Authenticate | None, *, tickets: Tickets, notices: WorkerNotices
    ) -> None:
        self._authenticate = authenticate
        self._tickets = tickets
        self._notices = notices

    async def verify(self, credentials: Credentials) -> Admission:
        """The user of the credentials; raises `NotSignedIn` if they are invalid or have expired."""
        if credentials.ticket is not None:
            admission = await self._tickets.use(credentials.ticket)
        elif self._authenticate is not None:
            # Read first: a login that ends while the token is verified must count as ended.
            since_ms = self._notices.now_ms() or int(time.time() * 1000)
            user = await self._authenticate(credentials.token or "")
            admission = None if user is None else Admission(principal_of(user), since_ms)
        else:
            raise NotSignedIn("sockets need a ticket here; tokens are not accepted")
        if admission is None or time.time() >= admission.principal.expires_at:
            raise NotSignedIn("this token or ticket is invalid or has expired")
        return admission
