"""The application: its routes, and what is around them."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware

from leasehold.documents.fastapi import LockRouter, SocketLimits, lock_router
from leasehold.documents.http.problems import problem_responses
from leasehold.errors import NotSignedIn
from leasehold.observe.prometheus import PrometheusExporter
from leasehold.server.app.health import health_router
from leasehold.server.app.lifespan import Foundation
from leasehold.server.app.metrics import ServerMetrics, metrics_router
from leasehold.server.app.web_page import WebPage
from leasehold.server.auth.routes import accounts_router
from leasehold.server.budgets import limited_address, limited_user
from leasehold.server.demo_team import TEAM
from leasehold.server.documents.draft_routes import drafts_router
from leasehold.server.documents.lock_routes import editing_now_router
from leasehold.server.documents.routes import documents_router
from leasehold.server.documents.version_routes import versions_router
from leasehold.server.http.middleware import Envelope
from leasehold.server.http.problem_handlers import install_problems
from leasehold.server.http.static_files import PageFiles
from leasehold.server.http.telemetry import Telemetry
from leasehold.server.teams.application_routes import applications_router
from leasehold.server.teams.member_routes import members_router
from leasehold.server.teams.project_routes import projects_router

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from leasehold.documents.ports import Principal
    from leasehold.server.settings import Settings

_SENT_BY_PAGES = [
    "Authorization",
    "Content-Type",
    "Leasehold-Tab",
    "X-CSRF-Token",
    "X-Request-Id",
    "traceparent",
    "tracestate",
]
_READ_BY_PAGES = ["X-Request-Id", "Retry-After", "traceresponse"]
_FOR_USERS = (
    applications_router,
    members_router,
    projects_router,
    documents_router,
    versions_router,
    drafts_router,
    editing_now_router,
)


def create_app(settings: Settings) -> FastAPI:
    """The application. Nothing is opened before it starts; when it has started, the database is up to date.

    It starts without the store of locks, which may come later, and fails with a `leasehold.LeaseholdError` without a
    database.
    """
    foundation = Foundation.lay(settings)
    metrics = ServerMetrics() if settings.has_metrics else None
    foundation.watch(metrics and metrics.registry)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        counting = metrics.watching(live.hub) if metrics else nullcontext()
        async with foundation.open(live) as services, counting:
            app.state.services = services
            yield

    app = FastAPI(
        title="Leasehold",
        version=version("leasehold"),
        lifespan=lifespan,
        openapi_url="/openapi.json" if settings.docs_are_open else None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses=problem_responses(400, 413, 422, 429, 500, 503),
        # `Telemetry` tells of requests; FastAPI's own would repeat paths and queries, whatever people put there.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    live = _live(app, foundation)
    install_problems(app)
    app.include_router(live)  # first: routers are tried in this order, and what is asked for most is here
    app.include_router(health_router())
    app.include_router(accounts_router(), dependencies=[Depends(limited_address)])
    for router in _FOR_USERS:
        app.include_router(router(), dependencies=[Depends(limited_user)])
    if metrics and settings.metrics_token:
        token = settings.metrics_token.get_secret_value()
        app.include_router(metrics_router(PrometheusExporter(metrics.registry, token=token)))
    app.router.default = WebPage(
        PageFiles(settings.page_dir), team=TEAM if settings.demo else (), otherwise=app.router.not_found
    )
    _surround(app, settings)
    app.add_middleware(Telemetry, metrics=metrics)
    return app


def _live(app: FastAPI, foundation: Foundation) -> LockRouter:
    """The routes of the locks, and the socket."""
    settings = foundation.settings

    async def authenticate(token: str) -> Principal | None:
        try:
            return app.state.services.identity.principal_of(token)
        except NotSignedIn:
            return None

    return lock_router(
        foundation.client,
        current_user=limited_user,
        access=foundation.access,
        store=foundation.documents,
        times=settings.times,
        authenticate=authenticate,
        allowed_origins=sorted(settings.origins),
        limits=SocketLimits(
            unauthenticated=settings.max_unknown_sockets,
            sockets_per_user=settings.max_sockets_per_user,
            rooms_per_socket=settings.max_rooms_per_socket,
            messages_per_second=settings.max_messages_per_second,
            burst=max(1, round(10 * settings.max_messages_per_second)),
        ),
    )


def _surround(app: FastAPI, settings: Settings) -> None:
    """Layers around all routes; the last one is the outermost."""
    app.add_middleware(Envelope, max_body=settings.max_body_bytes, max_content=settings.max_content_bytes)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_credentials=True,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=_SENT_BY_PAGES,
            expose_headers=_READ_BY_PAGES,
        )
