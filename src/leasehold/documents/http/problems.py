"""Problems (RFC 9457) as the REST routes and the socket send them: a stable code, a message, the lock's holder."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold import errors
from leasehold.documents.http.schemas import LockHolder, holder_of
from leasehold.http_problems import MEDIA_TYPE, OF_ERROR, body_of, headers_of

if TYPE_CHECKING:
    from leasehold.documents.state import Editor, LockState

# Their messages are written for the caller; those of the others may name hosts and keys.
_WRITTEN_FOR_CALLERS = (
    errors.InvalidRequest,
    errors.NotSignedIn,
    errors.NotAllowed,
    errors.NotFound,
    errors.AlreadyExists,
    errors.RateLimited,
)
# The message repeats names of members, which the caller may have made as long as they like.
_MAX_MESSAGE = 300
_OUTCOME_UNKNOWN = "the lock store did not answer, so the outcome is unknown: try again"
_OF_STATUS: dict[int, type[errors.LeaseholdError]] = {
    401: errors.NotSignedIn,
    403: errors.NotAllowed,
    404: errors.NotFound,
    503: errors.StoreUnavailable,
}


class Problem(BaseModel):
    """``type`` and ``code`` are the same stable text. ``lock_holder`` is there while the lock is held."""

    type: str
    code: str
    title: str
    status: int
    message: str
    lock_holder: LockHolder | None = None


def problem_of(error: errors.LeaseholdError) -> Problem:
    """The error as a problem, without what callers must not see."""
    body = body_of(error)
    message = str(error) if isinstance(error, _WRITTEN_FOR_CALLERS) else ""
    if isinstance(error, errors.StoreUnavailable):
        message = _OUTCOME_UNKNOWN
    return Problem.model_validate({**body, "message": message or body.get("message") or body["title"]})


def busy_response(state: LockState, viewer: Editor) -> Response:
    """409: another user has the lock, or the same one in another tab."""
    return _conflict(errors.LockBusy, _describe_holder(state, viewer), state, viewer)


def lost_response(state: LockState, viewer: Editor) -> Response:
    """409: the caller does not have the lock that it wanted to keep."""
    message = f"you do not hold the lock; {_describe_holder(state, viewer)}"
    return _conflict(errors.LeaseLost, message, state, viewer)


def explain(error: Exception) -> Response:
    """Any error as a response. An unexpected one is not described."""
    match error:
        case errors.LeaseholdError():
            return respond(problem_of(error), headers_of(error))
        case RequestValidationError():
            return explain(errors.InvalidRequest(_first_complaint(error)))
        case HTTPException(status_code=400, detail="There was an error parsing the body"):
            # FastAPI answers undecodable bytes this way; everything else about a body is 422.
            return explain(errors.InvalidRequest("body: cannot be read"))
        case HTTPException():
            other = errors.InvalidRequest if error.status_code < 500 else errors.LeaseholdError
            code = _OF_STATUS.get(error.status_code, other).code
            status, phrase = error.status_code, HTTPStatus(error.status_code).phrase
            message = str(error.detail or phrase)
            problem = Problem(type=code, code=code, title=phrase, status=status, message=message)
            return respond(problem, dict(error.headers or {}))
        case _:
            return explain(errors.LeaseholdError())


def _first_complaint(error: RequestValidationError) -> str:
    """What is wrong and where. The value is not repeated: it may be a secret."""
    for complaint in error.errors():
        return f"{'.'.join(str(part) for part in complaint['loc'])}: {complaint['msg']}"[:_MAX_MESSAGE]
    return "the request is not valid"


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route with these problems, for OpenAPI."""
    # The schema is inlined: FastAPI would put a model under application/json, and resolves references to its own only.
    schema = Problem.model_json_schema(mode="serialization")
    definitions = schema.pop("$defs")
    schema["properties"]["lock_holder"]["anyOf"][0] = definitions["LockHolder"]
    content = {MEDIA_TYPE: {"schema": schema}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content} for status in sorted(statuses)
    }


def _describe_holder(state: LockState, viewer: Editor) -> str:
    holder = holder_of(state, viewer)
    if holder is None:
        return "the document is not being edited"
    if holder.same_user:
        return "you are editing this document" + ("" if holder.tab_is_mine else " in another tab")
    return f"{holder.user_name} is editing this document"


def _conflict(kind: type[errors.LeaseholdError], message: str, state: LockState, viewer: Editor) -> Response:
    problem = Problem(
        type=kind.code,
        code=kind.code,
        title=OF_ERROR[errors.LockBusy].title if kind is errors.LockBusy else "The lock has ended",
        status=HTTPStatus.CONFLICT,
        message=message,
        lock_holder=holder_of(state, viewer),
    )
    return respond(problem)


def respond(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """The problem as a response."""
    absent = {"lock_holder"} if problem.lock_holder is None else set[str]()
    return Response(problem.model_dump_json(exclude=absent), problem.status, headers, MEDIA_TYPE)
