"""Every route declares which permission it needs: a role, a login, the metrics token, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from tests.server.matrix import RULES

from leasehold.server import Settings, create_app
from leasehold.server.auth.dependencies import CurrentUser, rate_limited_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI
    from fastapi.dependencies.models import Dependant

# Not our routes: FastAPI's documentation, if it is exposed, and the socket, which authenticates by its first message.
WITHOUT_DEPENDENCIES = {"/openapi.json", "/docs", "/docs/oauth2-redirect", "/ws"}


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    """With every route that a setting can add; not started."""
    return create_app(Settings(data_dir=tmp_path, demo=True, metrics_token="x" * 16))


def permissions_by_route(app: FastAPI) -> dict[str, set[str]]:
    """The declared permission of each route, by its name; by its path where it is not a route of FastAPI."""
    found: dict[str, set[str]] = {}
    for route in _routes(app.routes):
        if isinstance(getattr(route, "original_route", route), APIRoute):
            found[route.name] = set(_needs(route.dependant))
        else:
            path = getattr(route, "path", None) or route.starlette_route.path
            if path not in WITHOUT_DEPENDENCIES:
                found[path] = set()
    return found


def _routes(routes: Any) -> Iterator[Any]:
    for route in routes:
        if hasattr(route, "effective_route_contexts"):  # an included router
            yield from route.effective_route_contexts()
        else:
            yield route


def _needs(dependant: Dependant) -> Iterator[str]:
    needs = getattr(dependant.call, "needs", None)
    if needs is not None:
        yield needs
    for each in dependant.dependencies:
        yield from _needs(each)


def test_every_route_declares_one_permission(app: FastAPI) -> None:
    permissions = permissions_by_route(app)
    assert len(permissions) > len(RULES)
    assert {name: found for name, found in permissions.items() if len(found) != 1} == {}


def test_the_declared_permissions_are_those_of_the_matrix(app: FastAPI) -> None:
    permissions = permissions_by_route(app)
    assert permissions.pop("metrics") == {"metrics token"}
    assert set(permissions) == set(RULES)
    for name, found in permissions.items():
        rule = RULES[name]
        expected = {"anybody": "nothing", "signed in": "login"}.get(rule.needs, rule.needs)
        # The cookie of a login is enough to refresh it and to log out.
        by_cookie = {"nothing"} if name in {"refresh", "logout"} else set()
        assert found <= {expected, rule.of_own, *by_cookie}, name


def test_a_route_without_a_permission_is_found(app: FastAPI) -> None:
    router = APIRouter()

    @router.get("/api/forgotten", name="forgotten")
    async def forgotten(user: CurrentUser) -> str:
        return user.user_id

    app.include_router(router, dependencies=[Depends(rate_limited_user)])
    app.add_route("/api/raw", lambda _: None)
    permissions = permissions_by_route(app)
    assert permissions["forgotten"] == set()
    assert permissions["/api/raw"] == set()
