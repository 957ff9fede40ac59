"""Health checks: liveness of the worker, readiness of its database and lock store."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from sqlalchemy import text
from starlette.responses import JSONResponse, Response

from leasehold.errors import LeaseholdError, StoreRefused, StoreUnavailable
from leasehold.http_problems import body_of
from leasehold.http_problems.fastapi import problem_response
from leasehold.server.auth.dependencies import PUBLIC
from leasehold.server.db.engine import reading
from leasehold.server.services import UsesServices  # noqa: TC001 - FastAPI reads it

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from leasehold.server.services import Services

_log = logging.getLogger("leasehold.server")
_TIMEOUT = 3.0
# The check is public, so frequent requests must not become work for the database.
_CACHED_SECONDS = 0.5


def health_router() -> APIRouter:
    """``/healthz`` and ``/readyz``. They are public, and name no more than the part that does not answer."""
    router = APIRouter(tags=["health"], dependencies=[PUBLIC])
    readiness = Readiness()

    @router.get("/healthz", summary="Whether the server lives")
    async def healthz() -> dict[str, str]:
        return {"status": "alive"}

    @router.get(
        "/readyz", summary="Whether database and store answer", responses={503: {"description": "Not now"}}
    )
    async def readyz(services: UsesServices) -> Response:
        parts = await readiness.check(services)
        if all(answer == "ok" for answer in parts.values()):
            return JSONResponse({"status": "ready", **parts})
        missing = ", ".join(name for name, answer in parts.items() if answer != "ok")
        body = body_of(StoreUnavailable()) | {"message": f"no answer from: {missing}"} | parts
        return problem_response(body, {"Retry-After": "1"})

    return router


class Readiness:
    """Caches the last result; concurrent callers wait for the same check."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._parts: dict[str, str] = {}
        self._fresh_until = 0.0

    async def check(self, services: Services) -> dict[str, str]:
        """For each part ``ok`` or ``unavailable``."""
        async with self._lock:
            if time.monotonic() >= self._fresh_until:
                checks = {"database": _query_database(services), "store": _ping_store(services)}
                answers = await asyncio.gather(*(_check_part(name, check) for name, check in checks.items()))
                self._parts = dict(zip(checks, answers, strict=True))
                self._fresh_until = time.monotonic() + _CACHED_SECONDS
            return self._parts


async def _check_part(name: str, check: Awaitable[Any]) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT):
            await check
    except (LeaseholdError, TimeoutError) as error:
        _log.warning("the %s does not answer: %s", name, str(error) or type(error).__name__)
        return "unavailable"
    return "ok"


async def _query_database(services: Services) -> None:
    async with reading(services.database) as db:
        await db.execute(text("SELECT 1"))


async def _ping_store(services: Services) -> None:
    connection = await services.client.store_access.transport.get_connection()
    reply = await connection.call("PING")
    if isinstance(reply, Exception):  # for example while it loads its data, or after a password change
        raise StoreRefused(str(reply)) from reply
