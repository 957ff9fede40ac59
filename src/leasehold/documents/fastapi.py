"""FastAPI: the locks of documents in an application that has its own users and its own database.

::

    router = lock_router(leasehold.connect(), current_user=signed_in, access=Policy(), store=Store())
    app.include_router(router)

``current_user`` is a dependency that gives the user, anything with ``id`` and ``name``. See docs/protocol.md for what
clients can ask, and `leasehold.documents.uvicorn` for how to serve sockets well.
"""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

try:
    import fastapi
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{__name__} needs {missing.name}: pip install 'leasehold[server]'", name=missing.name
    ) from missing

from leasehold.client import Client
from leasehold.documents.access_control import Gate
from leasehold.documents.http.problem_handlers import ProblemRoute, install_problems
from leasehold.documents.http.routes import add_lock_routes, add_ticket_route
from leasehold.documents.live.authentication import Admitting
from leasehold.documents.live.endpoint import SocketEndpoint
from leasehold.documents.live.hub import Hub
from leasehold.documents.live.limits import SocketLimits
from leasehold.documents.live.tickets import Tickets
from leasehold.documents.live.worker_notices import Notices, RightsChanged, SessionsEnded
from leasehold.documents.locks import DocumentLocks
from leasehold.documents.ports import AccessPolicy, DocumentStore
from leasehold.documents.principal import Authenticate
from leasehold.documents.timings import Times

__all__ = ["LockRouter", "SocketLimits", "install_problems", "lock_router"]


class LockRouter(fastapi.APIRouter):
    """The routes, and what the application can tell them. ``documents`` are the locks, for its own use."""

    def __init__(self, documents: DocumentLocks, *, hub: Hub, notices: Notices, prefix: str) -> None:
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
        """For as long as the application runs: sends every socket away in the end.

        Entered with the application's own lifespan if the router was included before it.
        """
        try:
            yield
        finally:
            await self.hub.close()

    async def rights_changed(self, user_id: str | None = None) -> None:
        """Tell all workers that the user's rights have changed, or anybody's: call it after they have.

        Who may not watch a document any more is shut out of it. Raises `leasehold.StoreUnavailable` if it is not
        known whether other workers were told; here it has been done.
        """
        self.hub.attendance.hear(RightsChanged(user_id))
        await self._notices.tell_rights_changed(user_id)

    async def sessions_ended(self, user_id: str, session_id: str | None = None) -> None:
        """Tell all workers that a sign-in of the user has ended, or every one: call it after it has.

        Its sockets are closed, and its tickets are good no more. Raises `leasehold.StoreUnavailable` as above.
        """
        now_ms = self._notices.now_ms() or int(time.time() * 1000)
        self.hub.attendance.hear(SessionsEnded(user_id, session_id, now_ms))
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
    """The routes of docs/protocol.md for documents in ``store``, and who may do what by ``access``.

    ``locks`` is for this router alone. Sockets are let in by tickets, and by tokens with ``authenticate``; by browsers
    from pages of the same host and of ``allowed_origins``. ``documents`` if the application has them already.
    """
    documents = documents or DocumentLocks(locks, store, times=times)
    gate, notices, tickets = (
        Gate(access),
        Notices(locks.store_access.transport),
        Tickets(locks.store_access.transport),
    )
    hub = Hub(documents, gate=gate, notices=notices, limits=limits)
    router = LockRouter(documents, hub=hub, notices=notices, prefix=prefix)
    add_lock_routes(router, documents, gate=gate, current_user=current_user)
    add_ticket_route(router, tickets, current_user=current_user)
    admitting = Admitting(authenticate, tickets=tickets, notices=notices)
    socket: Any = SocketEndpoint(hub, admitting=admitting, allowed_origins=allowed_origins)
    router.add_websocket_route(socket_path, socket, name="socket")
    return router
