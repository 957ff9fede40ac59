"""What a caller is told when it did not work: ``application/problem+json`` with a stable code (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from leasehold import errors
from leasehold.documents.http.schemas import LockHolder, holder_of
from leasehold.http_problems import OF_ERROR, body_of, headers_of

if TYPE_CHECKING:
    from leasehold.documents.state import Editor, LockState

MEDIA_TYPE = "application/problem+json"

# Their messages are made for whoever asks; those of the others may name hosts and keys.
_MADE_FOR_CALLERS = (
    errors.InvalidRequest,
    errors.NotSignedIn,
    errors.NotAllowed,
    errors.NotFound,
    errors.AlreadyExists,
    errors.RateLimited,
)
# The names of members are the caller's, too.
_LONGEST = 300
_UNKNOWN = "no answer from the store of locks, so the outcome is unknown: ask again"
_OF_STATUS: dict[int, type[errors.LeaseholdError]] = {
    401: errors.NotSignedIn,
    403: errors.NotAllowed,
    404: errors.NotFound,
    503: errors.StoreUnavailable,
}


class Problem(BaseModel):
    """``type`` and ``code`` are the same stable text. ``lock_holder`` is there if somebody holds the lock."""

    type: str
    code: str
    title: str
    status: int
    message: str
    lock_holder: LockHolder | None = None


def problem_of(error: errors.LeaseholdError) -> Problem:
    """The error, without anything that the caller should not see."""
    body = body_of(error)
    message = str(error) if isinstance(error, _MADE_FOR_CALLERS) else ""
    if isinstance(error, errors.StoreUnavailable):
        message = _UNKNOWN
    return Problem(
        type=error.code,
        code=error.code,
        title=body["title"],
        status=body["status"],
        message=message or body.get("message") or body["title"],
    )


def busy(state: LockState, viewer: Editor) -> Response:
    """409: somebody else has the lock, or the same person at another tab."""
    return _conflict(errors.LockBusy, _who_edits(state, viewer), state, viewer)


def lost(state: LockState, viewer: Editor) -> Response:
    """409: the lock that the caller wanted to keep is not theirs."""
    message = f"you do not hold the lock; {_who_edits(state, viewer)}"
    return _conflict(errors.LeaseLost, message, state, viewer)


def answer(error: errors.LeaseholdError) -> Response:
    """The error as an answer, with ``Retry-After`` where it may help to come back."""
    headers = dict(headers_of(error))
    problem = problem_of(error)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return respond(problem, headers)


def explain(error: Exception) -> Response:
    """Any error as an answer; what nobody foresaw without a word about it."""
    match error:
        case errors.LeaseholdError():
            return answer(error)
        case RequestValidationError():
            return answer(errors.InvalidRequest(_what_is_wrong(error)))
        case HTTPException(status_code=400, detail="There was an error parsing the body"):
            # FastAPI's own answer to bytes that are no text; everything else about a body is 422.
            return answer(errors.InvalidRequest("body: cannot be read"))
        case HTTPException():
            other = errors.InvalidRequest if error.status_code < 500 else errors.LeaseholdError
            kind = _OF_STATUS.get(error.status_code, other)
            phrase = HTTPStatus(error.status_code).phrase
            problem = Problem(
                type=kind.code,
                code=kind.code,
                title=phrase,
                status=error.status_code,
                message=str(error.detail or phrase),
            )
            return respond(problem, dict(error.headers or {}))
        case _:
            return answer(errors.LeaseholdError())


def _what_is_wrong(error: RequestValidationError) -> str:
    """The first complaint. What was given is not repeated: it may be a secret."""
    for complaint in error.errors():
        return f"{'.'.join(str(part) for part in complaint['loc'])}: {complaint['msg']}"[:_LONGEST]
    return "the request is not valid"


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the ``responses`` of a route: what OpenAPI says about its problems."""
    # Written out: FastAPI would put a model under application/json, and a reference needs a model that it knows.
    schema = Problem.model_json_schema(mode="serialization")
    definitions = schema.pop("$defs")
    schema["properties"]["lock_holder"]["anyOf"][0] = definitions["LockHolder"]
    content = {MEDIA_TYPE: {"schema": schema}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content} for status in sorted(statuses)
    }


def _who_edits(state: LockState, viewer: Editor) -> str:
    holder = holder_of(state, viewer)
    if holder is None:
        return "nobody is editing this document"
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
    """The problem as an answer."""
    absent = {"lock_holder"} if problem.lock_holder is None else set[str]()
    return Response(problem.model_dump_json(exclude=absent), problem.status, headers, MEDIA_TYPE)
