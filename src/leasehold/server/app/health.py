"""Whether this worker lives, and whether it can do its work."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from sqlalchemy import text
from starlette.responses import JSONResponse, Response

from leasehold.documents.http.problems import MEDIA_TYPE
from leasehold.errors import LeaseholdError, StoreRefused, StoreUnavailable
from leasehold.http_problems import body_of
from leasehold.server.db.engine import reading
from leasehold.server.services import UsesServices  # noqa: TC001 - FastAPI reads it

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from leasehold.server.services import Services

_log = logging.getLogger(__name__)
_PATIENCE = 3.0
# Anybody may ask, so asking often must not become work for the database.
_GOOD_FOR = 0.5


def health_router() -> APIRouter:
    """``/healthz`` and ``/readyz``, open to anybody: they say nothing but yes, or which part does not answer."""
    router = APIRouter(tags=["health"])
    readiness = Readiness()

    @router.get("/healthz", summary="Whether the server lives")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @router.get(
        "/readyz", summary="Whether database and store answer", responses={503: {"description": "Not now"}}
    )
    async def readyz(services: UsesServices) -> Response:
        parts = await readiness.ask(services)
        if all(answer == "ok" for answer in parts.values()):
            return JSONResponse({"status": "ready", **parts})
        missing = ", ".join(name for name, answer in parts.items() if answer != "ok")
        body = body_of(StoreUnavailable()) | {"message": f"no answer from: {missing}"} | parts
        return JSONResponse(body, 503, {"Retry-After": "1"}, MEDIA_TYPE)

    return router


class Readiness:
    """The last answer, and whoever asks while it is being found out waits for the same one."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._found: dict[str, str] = {}
        self._good_until = 0.0

    async def ask(self, services: Services) -> dict[str, str]:
        """For each part ``ok`` or ``unavailable``."""
        async with self._turn:
            if time.monotonic() >= self._good_until:
                checks = {"database": _ask_database(services), "store": _ask_store(services)}
                answers = await asyncio.gather(*(_check(name, check) for name, check in checks.items()))
                self._found = dict(zip(checks, answers, strict=True))
                self._good_until = time.monotonic() + _GOOD_FOR
            return self._found


async def _check(name: str, asking: Awaitable[Any]) -> str:
    try:
        async with asyncio.timeout(_PATIENCE):
            await asking
    except (LeaseholdError, TimeoutError) as error:
        _log.warning("the %s does not answer: %s", name, error or type(error).__name__)
        return "unavailable"
    return "ok"


async def _ask_database(services: Services) -> None:
    async with reading(services.sessions) as session:
        await session.execute(text("SELECT 1"))


async def _ask_store(services: Services) -> None:
    connection = await services.client.store_access.transport.get_connection()
    reply = await connection.call("PING")
    if isinstance(reply, Exception):  # it is loading its data, say, or has a new password
        raise StoreRefused(str(reply)) from reply
