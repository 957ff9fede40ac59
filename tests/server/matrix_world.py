"""A user of each role, their objects in every place, and the contents of the database and the store."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update
from tests.server.api import PASSWORD
from tests.server.matrix import CALLERS, NO_LOGIN, ROLES, SIGNED_OUT, Operation, Place, Rule, Target
from tests.support.eventually import eventually_async

from leasehold.documents.state import Editor
from leasehold.server.auth.cookies import CSRF, REFRESH
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import (
    ApplicationRow,
    DocumentRow,
    DraftRow,
    LoginRow,
    MemberRow,
    ProjectRow,
    Row,
    UserRow,
    VersionRow,
    new_id,
)
from leasehold.server.documents.content import encode_content, hash_of

if TYPE_CHECKING:
    import httpx
    import redis

    from leasehold.server.services import Services

TAB = "the tab of the lock holder"

_CANARIES = {
    "personal": "canary-alone",
    "team": "canary-team",
    "elsewhere": "canary-others",
    "removed": "canary-gone",
}
_CIRCLES: dict[str, tuple[str, ...]] = {
    "outsider": ("elsewhere",),
    "removed": ("removed",),
    # The texts of a removed member stay, with the name.
    **dict.fromkeys(("viewer", "editor", "owner"), ("team", "removed")),
    "personal owner": ("personal",),
}
_PEOPLE = {
    "outsider": "elsewhere",
    "bystander": "elsewhere",
    "removed": "removed",
    "viewer": "team",
    "editor": "team",
    "owner": "team",
    "personal owner": "personal",
    "newcomer": "",
}
_EDITORS: dict[Place, str] = {
    "personal": "personal owner",
    "application": "editor",
    "project": "editor",
    "elsewhere": "outsider",
}
"""Holds the lock while others are refused."""

_EVERYTHING = """
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  all[#all + 1] = {key, redis.call('DUMP', key), redis.call('PEXPIRETIME', key)}
end
return all
"""


def canaries_kept_from(caller: str) -> list[str]:
    """Words that a caller must never receive: they are in every name and text of the circles of other users."""
    return [word for circle, word in _CANARIES.items() if circle not in _CIRCLES.get(caller, ())]


ALL_CANARIES = tuple(_CANARIES.values())


@dataclass(frozen=True)
class Objects:
    """The objects in one place, by the name of the parameter."""

    application_id: str
    project_id: str
    document_id: str
    draft_id: str
    user_id: str
    version: str = "1"


@dataclass(frozen=True)
class Credentials:
    """The credentials that a caller sends."""

    token: str | None = None
    refresh_token: str | None = None
    csrf_token: str | None = None
    login_id: str = ""


class World:
    """One application for all tests: the users stay, their objects can be created again."""

    def __init__(self, services: Services, http: httpx.AsyncClient, store: redis.Redis) -> None:
        self._services = services
        self._http = http
        self._store = store
        self._people: dict[str, UserRow] = {}

    async def populate(self) -> None:
        auth = self._services.auth
        for name, circle in _PEOPLE.items():
            email = f"{name.replace(' ', '-')}@example.com"
            shown = f"{name.title()} {_CANARIES.get(circle, '')}".strip()
            self._people[name] = await auth.register(email=email, password=PASSWORD, display_name=shown)

    async def clear(self) -> None:
        """Deletes everything but the users."""
        async with writing(self._services.database) as session:
            for table in (DocumentRow, ApplicationRow, LoginRow):
                await session.execute(delete(table))
            await session.execute(delete(UserRow).where(UserRow.id.not_in(self._ids())))
            for person in self._people.values():
                was = {name: getattr(person, name) for name in ("email", "display_name", "password_hash")}
                await session.execute(
                    update(UserRow).where(UserRow.id == person.id).values(**was, deleted_at=None)
                )
        self._store.execute_command("FLUSHALL")

    async def sign_in(self, caller: str) -> Credentials:
        """Signs in again; a signed-out caller was signed in before."""
        if caller == NO_LOGIN:
            return Credentials()
        auth = self._services.auth
        user = self._people["owner" if caller == SIGNED_OUT else caller]
        active = await auth.logins.start(user)
        token = auth.tokens.issue(
            user_id=user.id, user_name=user.display_name, login_id=active.login_id, at=active.seen_at
        )
        credentials = Credentials(
            token.text, active.refresh_token, auth.csrf.of(active.refresh_token), active.login_id
        )
        if caller == SIGNED_OUT:
            headers = {"Authorization": f"Bearer {token.text}"}
            assert (await self._send("POST", "/api/auth/logout", headers=headers)).status_code == 204
            # Stored behind the response, and a change that is compared later otherwise.
            key = f"doc_lock:ended:{{{user.id}}}"
            await eventually_async(lambda: self._store.zscore(key, f"={active.login_id}") is not None)
        return credentials

    async def sign_in_all(self) -> dict[str, Credentials]:
        return {caller: await self.sign_in(caller) for caller in CALLERS}

    async def make_objects(self) -> dict[Place, Objects]:
        """Creates in every place a document with a version and a draft, in an application with members and a project."""
        team, elsewhere = new_id(), new_id()
        project, project_elsewhere = new_id(), new_id()
        things: dict[Place, Objects] = {
            "personal": self._objects("personal owner"),
            "application": self._objects("viewer", application_id=team),
            "project": self._objects("viewer", application_id=team, project_id=project),
            "elsewhere": self._objects("bystander", application_id=elsewhere, project_id=project_elsewhere),
            "nowhere": Objects(*(new_id() for _ in range(5))),
        }
        async with writing(self._services.database) as session:
            session.add_all([_application(team, "team"), _application(elsewhere, "elsewhere")])
            await session.flush()
            members = {team: ROLES["application"], elsewhere: ROLES["elsewhere"] | {"bystander": "viewer"}}
            for application_id, roles in members.items():
                session.add_all(self._member(application_id, *member) for member in roles.items())
            session.add_all(
                [_project(project, team, "team"), _project(project_elsewhere, elsewhere, "elsewhere")]
            )
            await session.flush()
            session.add_all(
                [
                    self._document(things["personal"], "personal", by="personal owner"),
                    self._document(things["application"], "team", by="removed", application_id=team),
                    self._document(things["project"], "team", by="removed", project_id=project),
                    self._document(things["elsewhere"], "elsewhere", by="outsider", application_id=elsewhere),
                ]
            )
            await session.flush()
            for place, author in (
                ("personal", "personal owner"),
                ("application", "viewer"),
                ("project", "viewer"),
                ("elsewhere", "outsider"),
            ):
                session.add_all(self._texts(things[place], place, author=author))
        return things

    async def hold_all(self, things: dict[Place, Objects]) -> dict[Place, str]:
        """Locks each document, and returns the fences."""
        return {
            place: await self.hold(things[place].document_id, caller) for place, caller in _EDITORS.items()
        }

    async def hold(self, document_id: str, caller: str) -> str:
        """The fence."""
        user = self._people[caller]
        editor = Editor.at_tab(user.id, user.display_name, TAB)
        granted = await self._services.locks.acquire(document_id, editor)
        return str(granted.fence)

    async def ask(
        self,
        operation: Operation,
        rule: Rule,
        target: Target,
        *,
        things: dict[Place, Objects],
        credentials: Credentials,
        fence: str = "1",
    ) -> httpx.Response:
        """The response to a request in which at most the caller is wrong."""
        named = vars(things.get(target.place, things["nowhere"])) | {"login_id": credentials.login_id or "0"}
        if target.strange_part:
            strange = things["elsewhere"]
            named |= {"draft_id": strange.draft_id, "user_id": strange.user_id, "version": "999"}
        here = {target.parameter: named[target.parameter]} if target.parameter else {}
        body = None
        if rule.body is not None:
            words = {"new": f"new-{new_id()}", "newcomer": self._people["newcomer"].email}
            words |= {"password": PASSWORD, "fence": fence}
            body = {
                key: value.format(**words) if isinstance(value, str) else value
                for key, value in rule.body.items()
            }
            body |= {key: value for key, value in here.items() if key in operation.in_body}
        headers = {"Leasehold-Tab": TAB}
        if credentials.token is not None:
            headers["Authorization"] = f"Bearer {credentials.token}"
        if REFRESH in operation.in_cookie and credentials.refresh_token is not None:
            headers["Cookie"] = f"{REFRESH}={credentials.refresh_token}; {CSRF}={credentials.csrf_token}"
            headers["X-CSRF-Token"] = str(credentials.csrf_token)
        return await self._send(
            operation.method,
            operation.path.format(**named),
            params={key: value for key, value in here.items() if key in operation.in_query},
            json=body,
            headers=headers,
        )

    async def send_nonsense(self, operation: Operation) -> httpx.Response:
        """The response to an invalid request without a login."""
        path = operation.path.format_map(defaultdict(lambda: "0"))
        return await self._send(operation.method, path, json=["nonsense"])

    async def look(self) -> dict[str, Any]:
        """All rows of all tables, and all keys of the store with their expiry."""
        seen: dict[str, Any] = {}
        async with reading(self._services.database) as session:
            for table in Row.metadata.sorted_tables:
                rows = await session.execute(select(table))
                seen[table.name] = sorted(map(repr, rows))
        for key, value, ends_at in self._store.execute_command("EVAL", _EVERYTHING, 0):
            seen[f"key {key!r}"] = value, ends_at
        return seen

    async def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:
        self._http.cookies.clear()  # cookies of callers that signed in through it
        return await self._http.request(method, path, **parts)

    def _ids(self) -> list[str]:
        return [user.id for user in self._people.values()]

    def _objects(self, member: str, *, application_id: str = "", project_id: str = "") -> Objects:
        return Objects(
            application_id or new_id(), project_id or new_id(), new_id(), new_id(), self._people[member].id
        )

    def _member(self, application_id: str, name: str, role: str) -> MemberRow:
        return MemberRow(
            application_id=application_id, user_id=self._people[name].id, role=role, created_at=time.time()
        )

    def _document(self, things: Objects, circle: str, *, by: str, **scope: str) -> DocumentRow:
        word = _CANARIES[circle]
        return DocumentRow(
            id=things.document_id,
            title=f"Plan {word}",
            owner_id=self._people[by].id,
            version=1,
            content=encode_content(f"text {word}"),
            created_at=time.time(),
            updated_at=time.time(),
            updated_by=self._people[by].id,
            **scope,
        )

    def _texts(self, things: Objects, place: str, *, author: str) -> list[Row]:
        word = _CANARIES.get(place, _CANARIES["team"])
        content = encode_content(f"draft {word}")
        about: dict[str, Any] = {
            "document_id": things.document_id,
            "author_id": self._people[author].id,
            "fence": 1,
            "created_at": time.time(),
        }
        return [
            VersionRow(number=1, content=encode_content(f"text {word}"), **about),
            DraftRow(
                id=things.draft_id,
                content=content,
                content_hash=hash_of(content),
                base_version=0,
                reason="stale_base",
                status="open",
                **about,
            ),
        ]


def _application(application_id: str, circle: str) -> ApplicationRow:
    return ApplicationRow(id=application_id, name=f"Atlas {_CANARIES[circle]}", created_at=time.time())


def _project(project_id: str, application_id: str, circle: str) -> ProjectRow:
    return ProjectRow(
        id=project_id,
        application_id=application_id,
        name=f"Coast {_CANARIES[circle]}",
        created_at=time.time(),
    )
