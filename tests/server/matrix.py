"""Permissions: one rule for every operation of the OpenAPI document, and the response that follows for each caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from leasehold.documents.ports import Role

Place = Literal["none", "personal", "application", "project", "elsewhere", "nowhere"]
"""The place of an operation's object: personal, with the team, with another team, or missing."""

NO_LOGIN, SIGNED_OUT = "no login", "signed out"
CALLERS = (NO_LOGIN, SIGNED_OUT, "outsider", "removed", "viewer", "editor", "owner", "personal owner")

_TEAM: dict[str, Role] = {"viewer": "viewer", "editor": "editor", "owner": "owner"}
ROLES: dict[Place, dict[str, Role]] = {
    "personal": {"personal owner": "owner"},
    "application": _TEAM,
    "project": _TEAM,
    "elsewhere": {"outsider": "owner"},
}
_RANK: dict[Role | None, int] = {None: 0, "viewer": 1, "editor": 2, "owner": 3}
_PLACES: dict[str, tuple[Place, ...]] = {
    "document_id": ("personal", "application", "project", "elsewhere", "nowhere"),
    "project_id": ("project", "elsewhere", "nowhere"),
    "application_id": ("application", "elsewhere", "nowhere"),
}

Refusal = tuple[int, str]
_UNKNOWN_CALLER: Refusal = (401, "not_signed_in")
_TOO_LITTLE: Refusal = (403, "not_allowed")
_NOT_THERE: Refusal = (404, "not_found")


@dataclass(frozen=True)
class Rule:
    """The role that an operation needs; or only a login; or nothing.

    ``of_own``: the role that is enough for the caller's own draft or membership.
    ``part_unknown_from``: the role from which a part that the object does not have is not found; same values as ``needs``.
    ``works_from``: a lesser role gets ``otherwise``, because there is nothing to do, and so do those of ``not_for``.
    ``holds``: the caller holds the lock, if the object can be locked.
    """

    needs: Role | Literal["anybody", "signed in"]
    body: Mapping[str, Any] | None = None
    of_own: Role | None = None
    part_unknown_from: Role | None = None
    works_from: Role | None = None
    not_personal: bool = False
    even_signed_out: bool = False
    otherwise: Refusal = (409, "lease_lost")
    not_for: frozenset[str] = frozenset()
    holds: bool = False


RULES: dict[str, Rule] = {
    "healthz": Rule("anybody"),
    "readyz": Rule("anybody"),
    "register": Rule(
        "anybody", {"email": "{new}@example.com", "password": "{password}", "display_name": "New"}
    ),
    "login": Rule("anybody", {"email": "{newcomer}", "password": "{password}"}),
    "refresh": Rule("signed in"),
    "logout": Rule("signed in", even_signed_out=True),
    "me": Rule("signed in"),
    "change_password": Rule("signed in", {"current_password": "{password}", "new_password": "{password}"}),
    "list_logins": Rule("signed in"),
    "end_other_logins": Rule("signed in"),
    "end_login": Rule("signed in"),
    "delete_account": Rule(
        "signed in",
        {"password": "{password}"},
        # The only owners of teams.
        not_for=frozenset({"owner", "outsider"}),
        otherwise=(409, "already_exists"),
    ),
    "issue_ticket": Rule("signed in"),
    "create_application": Rule("signed in", {"name": "New"}),
    "list_applications": Rule("signed in"),
    "get_application": Rule("viewer"),
    "rename_application": Rule("owner", {"name": "Other"}),
    "delete_application": Rule("owner"),
    "list_members": Rule("viewer"),
    "add_member": Rule("owner", {"email": "{newcomer}", "role": "viewer"}),
    "change_member": Rule("owner", {"role": "editor"}),
    "remove_member": Rule("owner", of_own="viewer"),
    "create_project": Rule("editor", {"name": "New"}),
    "list_projects": Rule("signed in"),
    "get_project": Rule("viewer"),
    "delete_project": Rule("owner"),
    "create_document": Rule("editor", {"title": "New"}),
    "list_documents": Rule("signed in"),
    "get_document": Rule("viewer"),
    "rename_document": Rule("editor", {"title": "Other"}),
    "delete_document": Rule("owner"),
    "save_content": Rule("editor", {"content": "New", "base_version": 1, "fence": "{fence}"}, holds=True),
    "list_versions": Rule("viewer"),
    "get_version": Rule("viewer"),
    "list_drafts": Rule("editor"),
    "get_draft": Rule("editor"),
    "compare_draft": Rule("editor"),
    "restore_draft": Rule("editor", {"base_version": 1, "fence": "{fence}"}, holds=True),
    "discard_draft": Rule("owner", of_own="viewer", part_unknown_from="viewer"),
    "get_lock": Rule("viewer"),
    "acquire_lock": Rule("editor", {"move": True}),
    "release_lock": Rule("viewer", holds=True),
    "heartbeat_lock": Rule("viewer", {"idle_for": 1.0}, works_from="editor", holds=True),
    "force_take_lock": Rule("owner", not_personal=True),
    "get_lock_history": Rule("viewer"),
    "list_locks": Rule("signed in"),
}
"""By operationId."""


@dataclass(frozen=True)
class Target:
    """An object of an operation: the one at ``place``, named by ``parameter``.

    ``strange_part``: with the id of a part (a draft, a member, a version) of another object.
    """

    place: Place = "none"
    parameter: str = ""
    strange_part: bool = False

    def __str__(self) -> str:
        named = f"{self.parameter.removesuffix('_id')}: {self.place}" if self.parameter else "no object"
        return f"{named}, part of another" if self.strange_part else named


@dataclass(frozen=True)
class Operation:
    """An operation as the OpenAPI document describes it."""

    id: str
    method: str
    path: str
    in_path: frozenset[str]
    in_query: frozenset[str]
    in_cookie: frozenset[str]
    in_body: frozenset[str]
    required: frozenset[str] = field(repr=False)

    @property
    def is_safe(self) -> bool:
        return self.method == "GET"

    def targets(self) -> Iterator[Target]:
        """Every target of the operation."""
        in_path = [name for name in _PLACES if name in self.in_path]
        # Of two ids in a path, the second is that of a part.
        named = in_path[:1] or [name for name in _PLACES if name in self.in_body | self.in_query]
        if not self.required.intersection(named):
            yield Target()
        for name in named:
            for place in _PLACES[name]:
                yield Target(place, name)
        if len(self.in_path) > 1:
            yield Target("application", named[0], strange_part=True)


def refusal(rule: Rule, caller: str, target: Target) -> Refusal | None:
    """The expected refusal; None if the caller may."""
    if rule.needs == "anybody" or (caller == SIGNED_OUT and rule.even_signed_out):
        return None
    if caller in {NO_LOGIN, SIGNED_OUT}:
        return _UNKNOWN_CALLER
    if rule.needs == "signed in" or target.place == "none":
        return None
    if target.place == "nowhere":
        return _NOT_THERE
    role = ROLES[target.place].get(caller)
    if target.strange_part:
        found_from = rule.part_unknown_from or rule.needs
        return _NOT_THERE if _RANK[role] >= _RANK[found_from] else _TOO_LITTLE
    # In a team, the objects of the caller's own are the viewer's.
    is_own = rule.of_own is not None and role == "viewer"
    needs = rule.of_own if is_own else rule.needs
    if _RANK[role] < _RANK[needs] or (rule.not_personal and target.place == "personal"):
        return _TOO_LITTLE
    return None


def works(rule: Rule, caller: str, target: Target) -> bool:
    """Whether the operation succeeds for a caller who may."""
    if caller in rule.not_for:
        return False
    role = ROLES.get(target.place, {}).get(caller)
    return rule.works_from is None or _RANK[role] >= _RANK[rule.works_from]


def operations_of(document: dict[str, Any]) -> dict[str, Operation]:
    """Every operation of an OpenAPI document, by its id."""
    return {
        definition["operationId"]: _operation(document, method, path, definition)
        for path, methods in document["paths"].items()
        for method, definition in methods.items()
    }


def _operation(document: dict[str, Any], method: str, path: str, definition: dict[str, Any]) -> Operation:
    parameters = definition.get("parameters", [])
    body = _body_schema(document, definition)
    required = {each["name"] for each in parameters if each["required"]} | set(body.get("required", ()))

    def placed(where: str) -> frozenset[str]:
        return frozenset(each["name"] for each in parameters if each["in"] == where)

    return Operation(
        definition["operationId"],
        method.upper(),
        path,
        in_path=placed("path"),
        in_query=placed("query"),
        in_cookie=placed("cookie"),
        in_body=frozenset(body.get("properties", ())),
        required=frozenset(required),
    )


def _body_schema(document: dict[str, Any], definition: dict[str, Any]) -> dict[str, Any]:
    if "requestBody" not in definition:
        return {}
    schema = definition["requestBody"]["content"]["application/json"]["schema"]
    # A body that may be left out is this or null.
    schema = next((each for each in schema.get("anyOf", ()) if "$ref" in each), schema)
    return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
