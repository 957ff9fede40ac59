"""docs/protocol.md and its schemas say what the server does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

import leasehold
from leasehold import errors
from leasehold.documents.fastapi import lock_router
from leasehold.documents.json_schema import protocol_schema
from leasehold.documents.live.limits import SocketLimits
from leasehold.documents.live.messages import FROM_CLIENT, FROM_SERVER, CloseCode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
SCHEMA = protocol_schema()

PERSON = {"user_id": "ana", "user_name": "Ana"}
HOLDER = {**PERSON, "acquired_at": 1.5, "same_user": False, "tab_is_mine": False, "idle_since": None}
LOCK = {
    "document_id": "doc",
    "locked": True,
    "lock_holder": HOLDER,
    "version": {"fence": "1790000000000001", "step": 0},
    "expires_in": 44.9,
    "taking": {**PERSON, "seconds_left": 2.9},
}
CHANGE = {"document_id": "doc", "lock_holder": HOLDER, "triggered_by": PERSON, "timestamp": 1.5, "lock": LOCK}
FREE = {**LOCK, "locked": False, "lock_holder": None, "expires_in": None, "taking": None}

FROM_THE_CLIENT = [
    {"type": "authenticate", "data": {"token": "t"}},
    {"type": "authenticate", "data": {"ticket": "t", "tab": "one"}},
    {"type": "join", "data": {"document_id": "doc"}},
    {"type": "leave", "data": {"document_id": "doc"}},
    {"type": "heartbeat", "data": {"document_id": "doc"}},
    {"type": "heartbeat", "data": {"document_id": "doc", "idle_for": 3}},
    {"type": "ping", "data": {}},
    {"type": "ping"},
]
FROM_THE_SERVER = [
    {
        "type": "authenticated",
        "data": {**PERSON, "expires_at": None, "ttl": 45.0, "heartbeat": 10.0, "idle": 30.0},
    },
    {"type": "joined", "data": {"document_id": "doc", "role": "viewer", "lock": LOCK}},
    {"type": "left", "data": {"document_id": "doc"}},
    {"type": "heartbeat", "data": {"document_id": "doc", "extended": False, "lock_holder": None}},
    {"type": "pong", "data": {}},
    {"type": "document_locked", "data": CHANGE},
    {"type": "document_unlocked", "data": {**CHANGE, "lock_holder": None, "lock": FREE}},
    {"type": "document_lock_expired", "data": {**CHANGE, "triggered_by": None}},
    {"type": "document_force_save_requested", "data": CHANGE},
    {"type": "document_force_taken", "data": {**CHANGE, "saved": True}},
    {"type": "heartbeat_requested", "data": {"document_ids": ["doc"]}},
    {"type": "room_closed", "data": {"document_id": "doc", "code": "not_allowed"}},
    {"type": "error", "data": {"code": "not_found", "message": "no", "document_id": None}},
]


def types_in(definition: str) -> set[str]:
    return set(SCHEMA["$defs"][definition]["discriminator"]["mapping"])


def table(after: str) -> list[list[str]]:
    """The cells of the first table after some words, without its head."""
    lines = PAGE[PAGE.index(after) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def validator(definition: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{definition}"}]})


def test_the_schema_file_is_up_to_date() -> None:
    kept = json.loads((ROOT / "docs" / "protocol.schema.json").read_text(encoding="utf-8"))
    assert kept == SCHEMA, "make schemas"


def test_the_module_writes_the_file() -> None:
    written = subprocess.run(
        [sys.executable, "-m", "leasehold.documents.json_schema"], capture_output=True, check=True, timeout=60
    )
    assert json.loads(written.stdout) == SCHEMA


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_page_names_every_message_from_the_client() -> None:
    assert {named(row[0])[0] for row in table("From the client:")} == types_in("ClientMessage")


def test_the_page_names_every_message_from_the_server() -> None:
    answers = {named(row[2])[0] for row in table("From the client:")}
    others = {name for row in table("From the server, besides") for name in named(row[0])}
    assert answers | others == types_in("ServerMessage")


def test_the_page_names_every_close_code() -> None:
    assert {int(row[0]) for row in table("| close code")} == set(CloseCode)


def test_the_page_names_every_route() -> None:
    router = lock_router(leasehold.connect(), current_user=lambda: None, access=None, store=None)
    served = {
        (method, route.path.replace("{document_id}", "{id}"))
        for route in router.routes
        for method in getattr(route, "methods", ())
    }
    told = set()
    for row in table("## REST: the lock"):
        method, path = named(row[0])[0].split(" ")
        told.add((method, path.partition("?")[0]))
    assert told == served
    assert router.url_path_for("socket") == "/ws"


def test_the_page_names_only_existing_codes() -> None:
    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.LeaseholdError)
    }
    problem = PAGE[PAGE.index("An error is `application/problem+json`") :].partition("\n\n")[0]
    named_codes = set(re.findall(r"`([a-z]+_[a-z_]+)`", problem)) - {"lock_holder", "request_id"}  # members
    assert named_codes - codes == {"save_rescued"}  # an answer, and no error of the library
    assert named_codes >= {"lock_busy", "lease_lost", "not_allowed", "not_found", "store_unavailable"}


def test_the_limits_on_the_page_are_the_defaults() -> None:
    limits = SocketLimits()
    paragraph = PAGE[PAGE.index("Limits, each counted") :].partition("\n\n")[0]
    for number in (
        limits.sockets_per_user,
        limits.rooms_per_socket,
        int(limits.messages_per_second),
        limits.burst,
        limits.unread_replies,
        limits.unread_bytes // 1024,
        int(limits.drain_within),
    ):
        assert re.search(rf"\b{number}\b", paragraph), number
    assert f"at most {limits.message_bytes // 1024} KiB" in PAGE
    assert f"within {limits.authenticate_within:g} s" in PAGE


@pytest.mark.parametrize("message", FROM_THE_CLIENT, ids=lambda message: message["type"])
def test_the_schema_and_the_types_agree_about_client_messages(message) -> None:
    validator("ClientMessage").validate(message)
    FROM_CLIENT.validate_json(json.dumps(message))


@pytest.mark.parametrize("message", FROM_THE_SERVER, ids=lambda message: message["type"])
def test_the_schema_and_the_types_agree_about_server_messages(message) -> None:
    read = FROM_SERVER.validate_json(json.dumps(message), strict=True)
    written = json.loads(read.model_dump_json())
    assert written == message
    validator("ServerMessage").validate(written)


def test_every_message_has_an_example_here() -> None:
    assert {message["type"] for message in FROM_THE_CLIENT} == types_in("ClientMessage")
    assert {message["type"] for message in FROM_THE_SERVER} == types_in("ServerMessage")


@pytest.mark.parametrize("message", FROM_THE_SERVER, ids=lambda message: message["type"])
def test_server_messages_have_all_their_members(message) -> None:
    for name in message["data"]:
        less = {**message, "data": {key: value for key, value in message["data"].items() if key != name}}
        with pytest.raises(jsonschema.ValidationError):
            validator("ServerMessage").validate(less)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "join", "data": {"document_id": "doc", "user_id": "olga"}},
        {"type": "join", "data": {"document_id": "doc"}, "as": "olga"},
        {"type": "join", "data": {"document_id": ""}},
        {"type": "join", "data": {"document_id": "x" * 129}},
        {"type": "heartbeat", "data": {"document_id": "doc", "idle_for": -1}},
        {"type": "heartbeat", "data": {"document_id": "doc", "idle_for": 86401}},
        {"type": "authenticate", "data": {"token": "t", "tab": "x" * 129}},
        {"type": "authenticate", "data": {"token": "t", "tab": "ä"}},
        {"type": "shout", "data": {}},
    ],
    ids=["member", "outer member", "empty", "long", "negative", "large", "long tab", "tab", "type"],
)
def test_the_schema_and_the_types_agree_about_invalid_messages(message) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator("ClientMessage").validate(message)
    with pytest.raises(ValidationError):
        FROM_CLIENT.validate_json(json.dumps(message))
