"""FastAPI routes for document locks in an application with its own users and its own database.

::

    router = lock_router(leasehold.connect(), current_user=signed_in, access=Policy(), store=Store())
    app.include_router(router)

``current_user`` is a dependency that returns the user, any object with ``id`` and ``name``. See docs/protocol.md for
the routes and messages, and `leasehold.documents.uvicorn` for serving sockets well.
"""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from leasehold.extras import requires_extra

with requires_extra(__name__, "server"):
    import fastapi

from leasehold.client import Client
from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.http.problem_handlers import ProblemRoute, install_problems
from leasehold.documents.http.routes import add_lock_routes, add_ticket_route
from leasehold.documents.live.authentication import SocketAuthenticator
from leasehold.documents.live.endpoint import SocketEndpoint
from leasehold.documents.live.hub import Hub
from leasehold.documents.live.limits import SocketLimits
from leasehold.documents.live.worker_notices import RightsChanged, SessionsEnded, WorkerNotices
from leasehold.documents.locks import DocumentLocks
from leasehold.documents.ports import AccessPolicy, Authenticate, DocumentStore
from leasehold.documents.store.tickets import Tickets
from leasehold.documents.timings import Times

__all__ = ["LockRouter", "SocketLimits", "install_problems", "lock_router"]


class LockRouter(fastapi.APIRouter):
    """The routes, and methods to announce changed permissions and ended logins. ``documents`` are the locks."""

    def __init__(self, documents: DocumentLocks, *, hub: Hub, notices: WorkerNotices, prefix: str) -> None:
        super().__init__(
            prefix=prefix,
            tags=["locks"],
            route_class=ProblemRoute,
            generate_unique_id_function=lambda route: route.name,
            lifespan=lambda _: self.running(),
        )
        self.documents = documents
        self.hub = hub
        self._notices = notices

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """The router's lifespan: closes every socket at the end.

        Entered with the application's own lifespan if the router was included before it.
        """
        try:
            yield
        finally:
            await self.hub.close()

    async def rights_changed(self, user_id: str | None = None) -> None:
        """Make all workers check the user's permissions again, or all users': call it after they have changed.

        Sockets stop watching what their user may no longer see. Raises `leasehold.StoreUnavailable` if other workers
        may not have received it; this worker has.
        """
        self.hub.presence.on_notice(RightsChanged(user_id))
        await self._notices.announce_rights_changed(user_id)

    async def sessions_ended(self, user_id: str, session_id: str | None = None) -> None:
        """Make all workers end a login of the user, or all of them: call it after the session has ended.

        Closes its sockets and invalidates its tickets. Raises `leasehold.StoreUnavailable` as above.
        """
        now_ms = self._notices.now_ms() or int(time.time() * 1000)
        self.hub.presence.on_notice(SessionsEnded(user_id, session_id, now_ms))
        await self._notices.end_sessions(user_id, session_id)


def lock_router(
    locks: Client,
    *,
    current_user: Callable[..., Any],
    access: AccessPolicy,
    store: DocumentStore,
    times: Times | None = None,
    prefix: str = "/api",
    socket_path: str = "/ws",
    authenticate: Authenticate | None = None,
    allowed_origins: Sequence[str] = (),
    limits: SocketLimits | None = None,
    documents: DocumentLocks | None = None,
) -> LockRouter:
    """The routes of docs/protocol.md for documents in ``store``, with the permissions of ``access``.

    ``locks`` is for this router alone. Sockets authenticate by tickets, and by tokens if ``authenticate`` is given;
    browsers connect from pages of the same host and of ``allowed_origins``. ``documents``: existing locks to use.
    """
    documents = documents or DocumentLocks(locks, store, times=times)
    permissions, notices, tickets = (
        PermissionCheck(access),
        WorkerNotices(locks.store_access.transport),
        Tickets(locks.store_access.transport),
    )
    hub = Hub(documents, permissions=permissions, notices=notices, limits=limits)
    router = LockRouter(documents, hub=hub, notices=notices, prefix=prefix)
    add_lock_routes(router, documents, permissions=permissions, current_user=current_user)
    add_ticket_route(router, tickets, current_user=current_user)
    authenticator = SocketAuthenticator(authenticate, tickets=tickets, notices=notices)
    socket: Any = SocketEndpoint(hub, authenticator=authenticator, allowed_origins=allowed_origins)
    router.add_websocket_route(socket_path, socket, name="socket")
    return router
