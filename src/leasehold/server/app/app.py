"""The FastAPI application: routes, middleware and lifespan."""

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
from leasehold.server.app.demo_team import TEAM
from leasehold.server.app.health import health_router
from leasehold.server.app.lifespan import Resources
from leasehold.server.app.metrics import ServerMetrics, metrics_router
from leasehold.server.app.web_page import WebPage
from leasehold.server.auth.dependencies import rate_limit_address, rate_limited_user
from leasehold.server.auth.own_account_routes import own_account_router
from leasehold.server.auth.routes import account_router
from leasehold.server.documents.draft_routes import draft_router
from leasehold.server.documents.lock_routes import lock_list_router
from leasehold.server.documents.routes import document_router
from leasehold.server.documents.version_routes import version_router
from leasehold.server.http.allowed_hosts import AllowedHosts
from leasehold.server.http.middleware import ApiMiddleware
from leasehold.server.http.problems import install_problems
from leasehold.server.http.request_bodies import RequestBodies
from leasehold.server.http.static_files import PageFiles
from leasehold.server.http.telemetry import Telemetry
from leasehold.server.teams.application_routes import application_router
from leasehold.server.teams.member_routes import member_router
from leasehold.server.teams.project_routes import project_router

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from leasehold.documents.ports import Principal
    from leasehold.server.settings import Settings

_CORS_REQUEST_HEADERS = [
    "Authorization",
    "Content-Type",
    "Leasehold-Tab",
    "X-CSRF-Token",
    "X-Request-Id",
    "traceparent",
    "tracestate",
]
_CORS_RESPONSE_HEADERS = ["X-Request-Id", "Retry-After", "traceresponse"]
_FOR_USERS = (
    own_account_router,
    application_router,
    member_router,
    project_router,
    document_router,
    version_router,
    draft_router,
    lock_list_router,
)


def create_app(settings: Settings) -> FastAPI:
    """The application. Its lifespan opens the resources and migrates the database.

    It starts without the lock store, which may come later, and fails with a `leasehold.LeaseholdError` without the
    database.
    """
    resources = Resources.build(settings)
    metrics = ServerMetrics() if settings.has_metrics else None
    resources.observe(metrics and metrics.registry)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        sampling = metrics.sample(live.hub) if metrics else nullcontext()
        async with resources.open(live) as services, sampling:
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
        # `Telemetry` does this. FastAPI's own would record paths and queries, which may contain anything.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    live = _lock_router(app, resources)
    install_problems(app)
    app.include_router(
        live
    )  # first, because routers are tried in this order, and most requests are for these routes
    app.include_router(health_router())
    app.include_router(account_router(), dependencies=[Depends(rate_limit_address)])
    for router in _FOR_USERS:
        app.include_router(router(), dependencies=[Depends(rate_limited_user)])
    if metrics and settings.metrics_token:
        token = settings.metrics_token.get_secret_value()
        app.include_router(metrics_router(PrometheusExporter(metrics.registry, token=token)))
    app.router.default = WebPage(
        PageFiles(settings.page_dir), team=TEAM if settings.demo else (), otherwise=app.router.not_found
    )
    _add_middleware(app, settings)
    app.add_middleware(Telemetry, record=metrics and metrics.count)
    return app


def _lock_router(app: FastAPI, resources: Resources) -> LockRouter:
    """The routes and the socket of document locks."""
    settings = resources.settings

    async def authenticate(token: str) -> Principal | None:
        try:
            return app.state.services.auth.principal_of(token)
        except NotSignedIn:
            return None

    return lock_router(
        resources.client,
        current_user=rate_limited_user,
        access=resources.access,
        store=resources.documents,
        times=settings.times,
        authenticate=authenticate,
        allowed_origins=sorted(settings.origins),
        limits=SocketLimits(
            unauthenticated=settings.max_unknown_sockets,
            unauthenticated_per_address=settings.max_unknown_sockets_per_address,
            sockets_per_user=settings.max_sockets_per_user,
            rooms_per_socket=settings.max_rooms_per_socket,
            messages_per_second=settings.max_messages_per_second,
            burst=max(1, round(10 * settings.max_messages_per_second)),
        ),
    )


def _add_middleware(app: FastAPI, settings: Settings) -> None:
    """Add the middleware; the last one is the outermost."""

    def user_of(authorization: bytes) -> str | None:
        scheme, _, token = authorization.decode("latin-1").partition(" ")
        try:
            return app.state.services.auth.principal_of(token).user_id if scheme.lower() == "bearer" else None
        except NotSignedIn:
            return None

    bodies = RequestBodies(
        max_body=settings.max_body_bytes, max_content=settings.max_content_bytes, user_of=user_of
    )
    app.add_middleware(ApiMiddleware, bodies=bodies, hosts=AllowedHosts(settings.hosts))
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_credentials=True,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=_CORS_REQUEST_HEADERS,
            expose_headers=_CORS_RESPONSE_HEADERS,
        )
