"""Every lock route and every socket message declares the role that it needs, so that none is open by omission."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, get_args

import pytest
from fastapi import Depends
from tests.documents.host import DictStore
from tests.documents.workers import Roles, SignIns

import leasehold
from leasehold.documents.fastapi import lock_router
from leasehold.documents.http.schemas import Asked
from leasehold.documents.live.messages import ClientMessage, Leave, Room

USERS = SignIns()

WITHOUT_A_CHECK = {Leave: "a client may leave a room that it may no longer watch"}
"""Messages about a document that reveal and change nothing of it."""


@pytest.fixture
def router():
    client = leasehold.connect("redis://127.0.0.1:1")  # never connected
    return lock_router(client, current_user=USERS.current_user, access=Roles(), store=DictStore())


def calls_of(dependant):
    """The dependencies of a route, direct and indirect."""
    for each in dependant.dependencies:
        yield each.call
        yield from calls_of(each)


def roles_of(router):
    """For each HTTP route: the roles that it declares."""
    routes = [route for route in router.routes if hasattr(route, "dependant")]
    return {
        route.name: [call.needs for call in calls_of(route.dependant) if hasattr(call, "needs")]
        for route in routes
    }


def undeclared_routes(router):
    return {name for name, roles in roles_of(router).items() if not roles}


def undeclared_messages(types):
    """The message types without ``needs``, and those about a document that need nothing without a reason."""
    return {
        kind
        for kind in types
        if "needs" not in vars(kind)
        or (kind.needs is None and is_about_a_document(kind) and kind not in WITHOUT_A_CHECK)
    }


def is_about_a_document(kind):
    return "document_id" in kind.model_fields["data"].annotation.model_fields


def message_types():
    (union, *_) = get_args(ClientMessage)
    return get_args(union)


def test_every_route_declares_its_role(router):
    assert undeclared_routes(router) == set()
    assert roles_of(router) == {
        "get_lock": ["viewer"],
        "acquire_lock": ["editor"],
        "release_lock": ["viewer"],
        "heartbeat_lock": ["viewer"],
        "force_take_lock": ["owner"],
        "get_lock_history": ["viewer"],
        "issue_ticket": ["login"],
    }


def test_every_route_needs_a_user(router):
    for route in router.routes:
        if hasattr(route, "dependant"):
            assert USERS.current_user in set(calls_of(route.dependant)), route.name


def test_a_route_that_declares_nothing_is_named(router):
    @router.get("/documents/{document_id}/lock/peek")
    async def peek(document_id: str, user: Annotated[object, Depends(USERS.current_user)]) -> str:
        return document_id

    assert undeclared_routes(router) == {"peek"}


def test_every_message_declares_its_role():
    assert undeclared_messages(message_types()) == set()
    assert {kind.__name__: kind.needs for kind in message_types()} == {
        "Authenticate": None,
        "Join": "viewer",
        "Leave": None,
        "Heartbeat": "viewer",
        "Ping": None,
    }


def test_a_message_that_declares_nothing_is_named():
    class Peek(Asked):
        type: Literal["peek"]
        data: Room

    class Open(Asked):
        needs: ClassVar = None
        type: Literal["open"]
        data: Room

    assert undeclared_messages([*message_types(), Peek, Open]) == {Peek, Open}
