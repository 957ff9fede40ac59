"""The routes of a document's lock. What they do is done elsewhere."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Header, Path, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from leasehold.documents import audit
from leasehold.documents.access_control import Gate
from leasehold.documents.heartbeats import beat
from leasehold.documents.http import dependencies, problems, schemas
from leasehold.documents.http.disconnect import unless_hung_up
from leasehold.documents.http.problems import problem_responses
from leasehold.documents.live.tickets import LIFETIME, Tickets
from leasehold.documents.locks import DocumentLocks
from leasehold.documents.outcomes import Busy
from leasehold.documents.ports import Role
from leasehold.documents.principal import Principal, principal_of
from leasehold.documents.state import Editor

DocumentId = Annotated[str, Path(min_length=1, max_length=schemas.MAX_ID, pattern=schemas.ID_PATTERN)]
Tab = Annotated[
    str | None,
    Header(alias="Leasehold-Tab", max_length=dependencies.MAX_LENGTH, pattern=dependencies.PATTERN),
]

_ALWAYS = (401, 422, 429, 503)
_REFUSED = problem_responses(*_ALWAYS, 403, 404)
_REFUSED_OR_HELD = problem_responses(*_ALWAYS, 403, 404, 409)
_HUNG_UP = 499


def editor_dependency(current_user: Callable[..., Any]) -> Callable[..., Any]:
    """Who is asking, at which tab."""

    async def current_editor(user: Annotated[Any, Depends(current_user)], tab: Tab = None) -> Editor:
        principal = principal_of(user)
        return Editor(principal.user_id, principal.user_name, dependencies.digest_of(tab))

    return current_editor


def add_lock_routes(
    router: APIRouter, documents: DocumentLocks, *, gate: Gate, current_user: Callable[..., Any]
) -> None:
    """Look, acquire, release, heartbeat, force-take, history."""

    def require(needs: Role, *, to_take: bool = False) -> Any:
        return _permitted_editor(gate, current_user, needs, to_take=to_take)

    # `beat` checks the permission, because a heartbeat depends on the role.
    heartbeating = declare_permission("viewer", editor_dependency(current_user))

    @router.get("/documents/{document_id}/lock", response_model=schemas.Lock, responses=_REFUSED)
    async def get_lock(document_id: DocumentId, editor: Annotated[Editor, require("viewer")]) -> Response:
        """Whether somebody edits the document, and who."""
        return _json(schemas.lock_of(await documents.state(document_id), editor))

    @router.post(
        "/documents/{document_id}/lock", response_model=schemas.GrantedLock, responses=_REFUSED_OR_HELD
    )
    async def acquire_lock(
        document_id: DocumentId,
        editor: Annotated[Editor, require("editor")],
        body: Annotated[schemas.AcquireRequest | None, Body()] = None,
    ) -> Response:
        """Begin to edit. Nobody waits: if somebody else edits, the answer is 409 and says who."""
        outcome = await documents.acquire(document_id, editor, move=body is not None and body.move)
        if isinstance(outcome, Busy):
            audit.note("lock_busy", document_id=document_id, person=editor)
            return problems.busy_response(outcome.state, editor)
        audit.note("lock_granted", document_id=document_id, person=editor, fence=str(outcome.fence))
        return _json(schemas.granted_lock(outcome, editor))

    @router.delete("/documents/{document_id}/lock", response_model=schemas.Lock, responses=_REFUSED)
    async def release_lock(
        document_id: DocumentId,
        editor: Annotated[Editor, require("viewer")],
        reason: Annotated[Literal["released", "idle"], Query()] = "released",
    ) -> Response:
        """Stop editing. It is harmless if the lock is not the caller's, or not any more."""
        return _json(schemas.lock_of(await documents.release(document_id, editor, reason=reason), editor))

    @router.post(
        "/documents/{document_id}/lock/heartbeat",
        response_model=schemas.ExtendedLock,
        responses=_REFUSED_OR_HELD,
    )
    async def heartbeat_lock(
        document_id: DocumentId,
        editor: Annotated[Editor, heartbeating],
        body: Annotated[schemas.HeartbeatRequest | None, Body()] = None,
    ) -> Response:
        """Go on editing. A lock that was lost is not given again: the answer is 409 and says who has it."""
        is_extended, state = await beat(documents, gate, document_id, editor, idle_for=body and body.idle_for)
        return (
            _json(schemas.extended_lock(state, editor))
            if is_extended
            else problems.lost_response(state, editor)
        )

    @router.post(
        "/documents/{document_id}/lock/force-take",
        response_model=schemas.TakenLock,
        responses=_REFUSED_OR_HELD,
    )
    async def force_take_lock(
        document_id: DocumentId, editor: Annotated[Editor, require("owner", to_take=True)], request: Request
    ) -> Response:
        """Take the lock from whoever has it, who is asked to save first. Ended by hanging up."""
        outcome = await unless_hung_up(request, documents.force_take(document_id, editor))
        if outcome is None:
            return Response(status_code=_HUNG_UP)
        if isinstance(outcome, Busy):
            audit.note("lock_busy", document_id=document_id, person=editor)
            return problems.busy_response(outcome.state, editor)
        audit.note("lock_taken", document_id=document_id, person=editor, fence=str(outcome.fence))
        return _json(schemas.taken_lock(outcome, editor))

    @router.get(
        "/documents/{document_id}/lock/history",
        response_model=schemas.LockHistory,
        responses=_REFUSED,
        dependencies=[require("viewer")],
    )
    async def get_lock_history(
        document_id: DocumentId,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        """Who has edited the document, newest first."""
        holds = await documents.history(document_id, limit=limit)
        return _json(schemas.LockHistory(holds=[schemas.past_hold(hold) for hold in holds]))


def add_ticket_route(router: APIRouter, tickets: Tickets, *, current_user: Callable[..., Any]) -> None:
    """The way to a socket without a token."""

    async def signed_in(user: Annotated[Any, Depends(current_user)]) -> Principal:
        return principal_of(user)

    @router.post("/live/ticket", response_model=schemas.Ticket, responses=problem_responses(*_ALWAYS))
    async def issue_ticket(
        principal: Annotated[Principal, declare_permission("login", signed_in)],
    ) -> Response:
        """A ticket that lets one socket in, once."""
        ticket = await tickets.issue(principal)
        return _json(schemas.Ticket(ticket=ticket, expires_in=LIFETIME))


def declare_permission(needs: str, dependency: Callable[..., Any]) -> Any:
    """Mark a dependency with the permission that it checks, so that a test can find routes without one."""
    dependency.needs = needs  # pyright: ignore[reportFunctionMemberAccess] - see above
    return Depends(dependency)


def _permitted_editor(gate: Gate, current_user: Callable[..., Any], needs: Role, *, to_take: bool) -> Any:
    """The caller in their tab, once they have this role."""
    check = gate.check_take if to_take else partial(gate.check, needs=needs)

    async def permitted_editor(
        document_id: DocumentId, user: Annotated[Any, Depends(current_user)], tab: Tab = None
    ) -> Editor:
        principal = principal_of(user)
        await check(principal.user_id, document_id)
        return Editor(principal.user_id, principal.user_name, dependencies.digest_of(tab))

    return declare_permission(needs, permitted_editor)


def _json(model: BaseModel) -> Response:
    # Made by our own types, so it need not be checked again.
    return Response(model.model_dump_json(), media_type="application/json")
