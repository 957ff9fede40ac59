"""Schemathesis against a running server: as an owner, with existing objects for its requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
from tests.server.api import PASSWORD, Api
from tests.server.team import acquire, make_team, save
from tests.support.eventually import LIMIT
from tests.support.launcher import launch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.api import Person
    from tests.server.served import Served

Seeds = dict[str, list[Any]]

_TAB = "tab of Olga"
_DOOMED, _NEW = 12, 4

_CONFIG = """
base-url = {address}
continue-on-failure = true
request-timeout = 60
cache.enabled = false
reports.har.path = "exchanges.har"

[generation]
max-examples = {examples}
deterministic = {is_the_same}
database = "none"

[phases]
examples.enabled = {is_shallow}
coverage.enabled = {is_shallow}
fuzzing.enabled = {is_deep}
stateful.enabled = {is_deep}
stateful.generation.max-examples = {scenarios}

[auth.wfc]
path = {people}
user = "olga"
peers = ["olga", "otto"]

# A free lock has a state, too: a release makes the lock free, and does not delete it.
[[operations]]
include-operation-id = ["get_lock", "get_lock_history"]
checks.use_after_free.enabled = false
"""

_OFTEN, _MOSTLY = 0.5, 0.95
_EVERYWHERE = {
    "path.document_id": "documents",
    "path.draft_id": "drafts",
    "path.version": "versions",
    "path.project_id": "projects",
    "path.application_id": "applications",
    "path.user_id": "members",
    "header.Leasehold-Tab": "tabs",
}
_SOMEWHERE = {
    "delete_document": {"path.document_id": "doomed_documents"},
    "delete_project": {"path.project_id": "doomed_projects"},
    "delete_application": {"path.application_id": "doomed_applications"},
    "add_member": {"body.email": "newcomers"},
    "save_content": {
        "path.document_id": "saved_documents",
        "body.fence": "saving_fences",
        "body.base_version": "bases",
    },
    "restore_draft": {
        "path.document_id": "restored_documents",
        "path.draft_id": "restored_drafts",
        "body.fence": "restoring_fences",
        "body.base_version": "bases",
    },
    "login": {"body.email": "emails", "body.password": "passwords"},
    "refresh": {
        "cookie.leasehold_refresh": "refresh_tokens",
        "cookie.leasehold_csrf": "csrf_tokens",
        "header.X-CSRF-Token": "csrf_tokens",
    },
}
"""Ids by dictionary: for all operations, and separate ones for operations that delete their object or need one of their own."""

_GRANTED = {
    "parameters": {
        "document_id": "$response.body#/document_id",
        "Leasehold-Tab": "$request.header.Leasehold-Tab",
    },
    "requestBody": {"base_version": "$response.body#/content_version", "fence": "$response.body#/fence"},
}
_SAVED = {"parameters": {"document_id": "$request.path.document_id", "version": "$response.body#/version"}}
_RESCUED = {
    "parameters": {"document_id": "$request.path.document_id", "draft_id": "$response.body#/draft_id"}
}
_LINKS = (
    ("acquire_lock", "200", "save_content", _GRANTED),
    ("force_take_lock", "200", "save_content", _GRANTED),
    ("save_content", "200", "get_version", _SAVED),
    ("save_content", "409", "get_draft", _RESCUED),
    ("save_content", "409", "compare_draft", _RESCUED),
    ("save_content", "409", "restore_draft", _RESCUED),
    ("save_content", "409", "discard_draft", _RESCUED),
)
"""Links from a response to the next operation, where Schemathesis does not infer them from the names."""


@dataclass(frozen=True)
class Budget:
    """The number of cases for each operation, and of scenarios; random, or the same each time."""

    examples: int
    scenarios: int
    at_random: bool = False


@dataclass(frozen=True)
class Findings:
    """The report of Schemathesis, and the number of successful requests for each operation."""

    is_clean: bool
    report: str
    served: Counter[str]


async def seed(served: Served) -> Seeds:
    """Creates a team with an application of Olga's, and in it an object of each kind."""
    async with served.client() as client, Api(client) as api:
        team = await make_team(api)
        olga, workshop = team.olga, await team.olga.create_application("Workshop")
        document = await _document_with_drafts(olga, await team.document(), drafts=1)
        saved = await _document_with_drafts(olga, await team.document(), drafts=0)
        restored = await _document_with_drafts(olga, await team.document(), drafts=_DOOMED)
        await olga.http.delete(f"/api/documents/{document.id}/lock")
        session = await client.post("/api/auth/login", json={"email": olga.email, "password": PASSWORD})
        return {
            "emails": [olga.email],
            "strangers": [team.otto.email],
            "newcomers": [(await api.register("Nora")).email for _ in range(_NEW)],
            "passwords": [PASSWORD],
            "refresh_tokens": [session.cookies["leasehold_refresh"]],
            "csrf_tokens": [session.cookies["leasehold_csrf"]],
            "documents": [document.id],
            "drafts": document.drafts,
            "saved_documents": [saved.id],
            "saving_fences": [saved.fence],
            "restored_documents": [restored.id],
            "restored_drafts": restored.drafts,
            "restoring_fences": [restored.fence],
            "versions": [1, 2],
            "bases": [2, 3],
            "tabs": [_TAB],
            "projects": [await olga.create_project(team.application_id)],
            "applications": [team.application_id],
            "members": [team.ana.id, team.ben.id, team.vera.id],
            "doomed_documents": [await olga.create_document() for _ in range(_DOOMED)],
            "doomed_projects": [await olga.create_project(workshop) for _ in range(_DOOMED)],
            "doomed_applications": [await olga.create_application() for _ in range(_DOOMED)],
        }


def run(served: Served, seeds: Seeds, directory: Path, *, is_deep: bool, budget: Budget) -> Findings:
    """Returns every defect in the responses to requests that the server's own OpenAPI document allows or forbids.

    Deep: generated cases, and scenarios. Otherwise each edge case of the schema alone.
    """
    document = _linked(httpx.get(f"{served.base_url}/openapi.json", timeout=LIMIT).json())
    (directory / "openapi.json").write_text(json.dumps(document))
    people = directory / "people.json"
    names = {"olga": seeds["emails"][0], "otto": seeds["strangers"][0]}
    people.write_text(json.dumps({"auth": [_login(*each) for each in names.items()]}))
    config = _CONFIG.format(
        address=json.dumps(served.base_url),
        people=json.dumps(str(people)),
        examples=budget.examples,
        scenarios=budget.scenarios,
        is_the_same=json.dumps(not budget.at_random),
        is_deep=json.dumps(is_deep),
        is_shallow=json.dumps(not is_deep),
    )
    (directory / "schemathesis.toml").write_text(config + _bindings(seeds))
    with tempfile.TemporaryFile() as output:
        process = launch(
            [sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--no-color"],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=str(directory),
            env=os.environ | {"COLUMNS": "120"},
        )
        try:
            is_clean = process.wait() == 0
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        report = output.read().decode(errors="replace")
    exchanges = directory / "exchanges.har"
    return Findings(is_clean, report, _served(exchanges, document) if exchanges.exists() else Counter())


@dataclass(frozen=True)
class _Seeded:
    id: str
    fence: str
    drafts: list[str]


async def _document_with_drafts(olga: Person, document_id: str, *, drafts: int) -> _Seeded:
    """A locked document at its second version, with drafts."""
    fence = (await acquire(olga, document_id))["fence"]
    for number, text in enumerate(("one", "two")):
        assert (await save(olga, document_id, text, number, fence)).status_code == 200
    late = [await save(olga, document_id, f"late {number}", 0, fence) for number in range(drafts)]
    return _Seeded(document_id, fence, [answer.json()["draft_id"] for answer in late])


def _bindings(seeds: Seeds) -> str:
    lines = ["[dictionaries]", *(f"{name}.values = {json.dumps(values)}" for name, values in seeds.items())]
    lines += ["[parameters]", *(_binding(*each, _OFTEN) for each in _EVERYWHERE.items())]
    for operation_id, bound in _SOMEWHERE.items():
        lines += ["[[operations]]", f"include-operation-id = {json.dumps([operation_id])}"]
        lines += [f"parameters.{_binding(*each, _MOSTLY)}" for each in bound.items()]
    return "\n".join(lines)


def _binding(parameter: str, dictionary: str, probability: float) -> str:
    return f'"{parameter}" = {{ dictionary = "{dictionary}", probability = {probability} }}'


def _linked(document: dict[str, Any]) -> dict[str, Any]:
    operations = {operation["operationId"]: operation for _, _, operation in _operations(document)}
    for source, status, target, link in _LINKS:
        links = operations[source]["responses"][status].setdefault("links", {})
        links[target] = {"operationId": target, **link, "x-schemathesis": {"merge_body": True}}
    return document


def _operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def _served(exchanges: Path, document: dict[str, Any]) -> Counter[str]:
    patterns = [
        (method, re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), operation["operationId"])
        for path, method, operation in _operations(document)
    ]
    served = Counter({operation_id: 0 for _, _, operation_id in patterns})
    for entry in json.loads(exchanges.read_text())["log"]["entries"]:
        asked, status = entry["request"], entry["response"]["status"]
        for method, pattern, operation_id in patterns:
            if method == asked["method"] and pattern.fullmatch(urlsplit(asked["url"]).path):
                served[operation_id] += 200 <= status < 300
    return served


def _login(name: str, email: str) -> dict[str, Any]:
    """Signs in again when the token is refused: one of the operations is logout."""
    return {
        "name": name,
        "loginEndpointAuth": {
            "endpoint": "/api/auth/login",
            "verb": "POST",
            "contentType": "application/json",
            "payloadRaw": json.dumps({"email": email, "password": PASSWORD}),
            "token": {
                "extractFrom": "body",
                "extractSelector": "/access_token",
                "sendIn": "header",
                "sendName": "Authorization",
                "sendTemplate": "Bearer {token}",
            },
        },
    }
