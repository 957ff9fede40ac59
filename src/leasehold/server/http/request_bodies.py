"""Limits the bodies of requests before they are read: their size, and who may send a large one."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from leasehold.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from starlette.types import Message, Receive

    UserOf = Callable[[bytes], str | None]

_DIGITS = 20
# JSON may escape one character of content as six, and not every client sends plain UTF-8.
_ESCAPED = 4
# A login is far smaller. FastAPI reads the body before it calls the route's dependencies, which check the token.
_UNKNOWN_CALLER_BYTES = 16_384
_LOGIN_PATHS = "/api/auth/"
# Of the largest kind, unfinished, for each user.
_LARGE_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class LargeBody:
    """A body that needs supervision: it is large, or its length is not declared.

    ``refusal`` is the response if it exceeds ``most``. ``user_id`` is None for an unknown caller.
    """

    user_id: str | None
    most: int
    refusal: HTTPException


class RequestBodies:
    """The limits of one worker. ``user_of`` gives the user of an ``Authorization`` header, or None."""

    def __init__(self, *, max_body: int, max_content: int, user_of: UserOf) -> None:
        self._max_body = max_body
        self._max_content_body = max_body + _ESCAPED * max_content
        self._user_of = user_of
        self._unfinished: dict[str, int] = {}

    def check(self, path: str, headers: dict[bytes, bytes]) -> LargeBody | None:
        """None if the body is small or absent. Raises `HTTPException`, or `RateLimited`, to refuse it."""
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            return None
        most = self._max_content_body if path.endswith("/content") else self._max_body
        if length is not None:
            # Of any number of zeros, and of more digits than Python converts.
            digits = length.lstrip(b"0") or b"0"
            if not (digits.isdigit() and len(digits) < _DIGITS and int(digits) <= most):
                raise HTTPException(413)
            most = int(digits)
            if most <= _UNKNOWN_CALLER_BYTES:
                return None
        user_id = self._user_of(headers.get(b"authorization", b""))
        if user_id is None:
            refusal = _refusal_of_unknown_caller(path)
            if length is not None:
                raise refusal
            return LargeBody(None, _UNKNOWN_CALLER_BYTES, refusal)
        if self._unfinished.get(user_id, 0) + most > _LARGE_AT_ONCE * self._max_content_body:
            raise RateLimited("too many large requests at once", retry_after=1)
        return LargeBody(user_id, most, HTTPException(413))

    @contextmanager
    def reading(self, body: LargeBody, receive: Receive) -> Generator[Receive]:
        """Inside, ``body`` counts as unfinished. Gives what to read it with, which keeps to the limit."""
        user_id = body.user_id
        if user_id is None:
            yield _limit(receive, body)
            return
        self._unfinished[user_id] = self._unfinished.get(user_id, 0) + body.most
        try:
            yield _limit(receive, body)
        finally:
            self._unfinished[user_id] -= body.most
            if not self._unfinished[user_id]:
                del self._unfinished[user_id]


def _limit(receive: Receive, body: LargeBody) -> Receive:
    left = body.most

    async def receive_limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise body.refusal
        return message

    return receive_limited


def _refusal_of_unknown_caller(path: str) -> HTTPException:
    if path.startswith(_LOGIN_PATHS):
        return HTTPException(413)
    message = "an access token is required for a body of this size: Authorization: Bearer …"
    return HTTPException(401, message, {"WWW-Authenticate": "Bearer"})
