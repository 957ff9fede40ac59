"""The routes of document locks and socket tickets."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from leasehold.documents import audit
from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.http import dependencies, problems, schemas
from leasehold.documents.http.dependencies import DocumentId, UserDependency
from leasehold.documents.http.disconnect import cancel_on_disconnect
from leasehold.documents.http.problems import problem_responses
from leasehold.documents.locks import DocumentLocks, heartbeat_as
from leasehold.documents.outcomes import Busy
from leasehold.documents.ports import Access, Principal, principal_of
from leasehold.documents.state import Editor
from leasehold.documents.store.tickets import LIFETIME, Tickets

_LOCK = "/documents/{document_id}/lock"
_ALWAYS = (401, 422, 429, 503)
_REFUSED = problem_responses(*_ALWAYS, 403, 404)
_CONFLICTS = problem_responses(*_ALWAYS, 403, 404, 409)
_CLIENT_CLOSED_REQUEST = 499


def add_lock_routes(
    router: APIRouter, documents: DocumentLocks, *, permissions: PermissionCheck, current_user: UserDependency
) -> None:
    """Add the routes to inspect, acquire, release, extend and force-take a lock, and its history."""
    asking = Depends(dependencies.editor_dependency(current_user))
    require = dependencies.role_dependency(permissions, asking)

    @router.get(_LOCK, response_model=schemas.Lock, responses=_REFUSED, dependencies=[require("viewer")])
    async def get_lock(document_id: DocumentId, editor: Annotated[Editor, asking]) -> Response:
        """The lock's state and holder."""
        return _json(schemas.lock_of(await documents.state(document_id), editor))

    @router.post(
        _LOCK, response_model=schemas.GrantedLock, responses=_CONFLICTS, dependencies=[require("editor")]
    )
    async def acquire_lock(
        document_id: DocumentId,
        editor: Annotated[Editor, asking],
        body: Annotated[schemas.AcquireRequest | None, Body()] = None,
    ) -> Response:
        """Start editing. Does not wait: if another editor holds the lock, the answer is 409 and names the holder."""
        outcome = await documents.acquire(document_id, editor, move=body is not None and body.move)
        if isinstance(outcome, Busy):
            audit.note("lock_busy", document_id=document_id, person=editor)
            return problems.busy_response(outcome.state, editor)
        audit.note("lock_granted", document_id=document_id, person=editor, fence=str(outcome.fence))
        return _json(schemas.granted_lock(outcome, editor))

    @router.delete(_LOCK, response_model=schemas.Lock, responses=_REFUSED, dependencies=[require("viewer")])
    async def release_lock(
        document_id: DocumentId,
        editor: Annotated[Editor, asking],
        reason: Annotated[Literal["released", "idle"], Query()] = "released",
    ) -> Response:
        """Stop editing. Changes nothing if the caller does not hold the lock."""
        return _json(schemas.lock_of(await documents.release(document_id, editor, reason=reason), editor))

    @router.post(_LOCK + "/heartbeat", response_model=schemas.ExtendedLock, responses=_CONFLICTS)
    async def heartbeat_lock(
        document_id: DocumentId,
        editor: Annotated[Editor, asking],
        access: Annotated[Access, require("viewer")],
        body: Annotated[schemas.HeartbeatRequest | None, Body()] = None,
    ) -> Response:
        """Extend the hold. A lost lock is not granted again: the answer is 409 and names the holder."""
        is_extended, state = await heartbeat_as(
            access, documents, document_id, editor, idle_for=body and body.idle_for
        )
        return (
            _json(schemas.extended_lock(state, editor))
            if is_extended
            else problems.lost_response(state, editor)
        )

    @router.post(
        _LOCK + "/force-take",
        response_model=schemas.TakenLock,
        responses=_CONFLICTS,
        dependencies=[require("owner", to_take=True)],
    )
    async def force_take_lock(
        document_id: DocumentId, editor: Annotated[Editor, asking], request: Request
    ) -> Response:
        """Take the lock from its holder, who is asked to save first. Disconnecting cancels it."""
        outcome = await cancel_on_disconnect(request, documents.force_take(document_id, editor))
        if outcome is None:
            return Response(status_code=_CLIENT_CLOSED_REQUEST)
        if isinstance(outcome, Busy):
            audit.note("lock_busy", document_id=document_id, person=editor)
            return problems.busy_response(outcome.state, editor)
        audit.note("lock_taken", document_id=document_id, person=editor, fence=str(outcome.fence))
        return _json(schemas.taken_lock(outcome, editor))

    @router.get(
        _LOCK + "/history",
        response_model=schemas.LockHistory,
        responses=_REFUSED,
        dependencies=[require("viewer")],
    )
    async def get_lock_history(
        document_id: DocumentId, limit: Annotated[int, Query(ge=1, le=200)] = 50
    ) -> Response:
        """The holds of the document, newest first."""
        holds = await documents.history(document_id, limit=limit)
        return _json(schemas.LockHistory(holds=[schemas.past_hold(hold) for hold in holds]))


def add_ticket_route(router: APIRouter, tickets: Tickets, *, current_user: UserDependency) -> None:
    """Add the route that issues tickets for sockets."""

    async def signed_in(user: Annotated[Any, Depends(current_user)]) -> Principal:
        return principal_of(user)

    @router.post("/live/ticket", response_model=schemas.Ticket, responses=problem_responses(*_ALWAYS))
    async def issue_ticket(
        principal: Annotated[Principal, dependencies.declare_permission("login", signed_in)],
    ) -> Response:
        """A ticket that opens one socket, once."""
        ticket = await tickets.issue(principal)
        return _json(schemas.Ticket(ticket=ticket, expires_in=LIFETIME))


def _json(model: BaseModel) -> Response:
    # Built from our own types, so FastAPI need not validate it again.
    return Response(model.model_dump_json(), media_type="application/json")
