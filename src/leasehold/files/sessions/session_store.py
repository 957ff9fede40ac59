"""What the store knows of one session: whose it is, and what it holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from leasehold.core.validity import to_ms
from leasehold.errors import NotAllowed
from leasehold.files import scripts
from leasehold.files.sessions.entries import read_entry
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from leasehold.core.engine import Engine
    from leasehold.files.sessions.credentials import Secret
    from leasehold.files.sessions.entries import Entry
    from leasehold.files.settings import FileSettings
    from leasehold.valkey.transport.protocols import Reply, Transport, Word

WHATEVER = "*"
"""In the place of what is expected."""


def as_it_was(entry: Entry) -> str:
    """The entry itself, or none, because history may be kept for a shorter time than somebody waits for a lock."""
    return "?" + entry.encode()


class Change(NamedTuple):
    """One entry that is to be written (or removed, if ``entry`` is empty), if there is what is expected."""

    field: str
    expected: str
    entry: str


class Book:
    """One session's page. Every use of it keeps it from being forgotten.

    A session that the store has forgotten (unused for too long, or with all its data) is made again by whoever has
    its secret, with what ``held`` says that it holds. `NotAllowed` if there is another session of that id by now.
    """

    def __init__(
        self,
        engine: Engine[Any],
        wire: Transport,
        namespace: str,
        session_id: str,
        secret: Secret,
        settings: FileSettings,
        held: Callable[[], Sequence[Entry]],
    ) -> None:
        self._engine = engine
        self._runner = ScriptRunner(wire)
        self._session_id = session_id
        self._secret = secret
        self._held = held
        self._ttl_ms = to_ms(settings.session_ttl)
        self._history_ms = to_ms(settings.history_ttl or settings.session_ttl)
        self._open = ScriptCommand(namespace, scripts.OPEN_SESSION, "session")
        self._note = ScriptCommand(namespace, scripts.NOTE, "session")
        self._recall = ScriptCommand(namespace, scripts.RECALL, "session")

    async def open(self) -> int:
        """The epoch of this opening; `NotAllowed` if the secret is not that of the session that is there."""
        digest, epoch = await self._ask(self._open, self._ttl_ms)
        if not self._secret.is_of(digest.decode()):
            raise NotAllowed(
                f"there is a session {self._session_id!r} already, and only its own secret opens it"
            )
        return int(epoch)

    async def note(self, changes: Sequence[Change]) -> bool:
        """Make all of the changes; False, and nothing is changed, if something is not as expected."""
        answer = await self._change(changes)
        if answer == -1:
            await self._begin_again()
            answer = await self._change(changes)
        return self._checked(answer) == 1

    async def forget(self, entries: Sequence[Entry]) -> None:
        """Remove these entries, except those that another process has changed since: what they stand for is its own.

        If the session is forgotten, so are they.
        """
        changes = [Change(entry.field, entry.encode(), "") for entry in entries]
        if changes and await self._change(changes) == 0 and len(changes) > 1:
            for change in changes:
                await self._change([change])

    async def forget_own(self, entry: Entry) -> None:
        """Remove the entry if this opening of the session was the last to change it, also if it never heard so."""
        if await self._change([Change(entry.field, entry.encode(), "")]) == 0:
            found = await self.entries()
            await self.forget([it for it in found if (it.field, it.epoch) == (entry.field, entry.epoch)])

    async def entries(self) -> list[Entry]:
        """Everything that is written down, the oldest first."""
        reply = await self._ask(self._recall, self._ttl_ms, self._history_ms)
        if reply[0] == -1:
            await self._begin_again()
            reply = await self._ask(self._recall, self._ttl_ms, self._history_ms)
        self._checked(reply[0])
        found = [
            read_entry(field.decode(), text.decode())
            for field, text in zip(reply[1::2], reply[2::2], strict=True)
        ]
        return sorted(found, key=lambda entry: (entry.since, entry.field))

    async def _begin_again(self) -> None:
        await self.open()
        if held := self._held():
            await self._change([Change(entry.field, WHATEVER, entry.encode()) for entry in held])

    async def _change(self, changes: Sequence[Change]) -> int:
        return await self._ask(self._note, self._ttl_ms, self._history_ms, json.dumps(changes))

    def _checked(self, answer: int) -> int:
        if answer == -1:
            raise NotAllowed(
                f"session {self._session_id!r} has ended, and its secret is worth nothing any more"
            )
        return answer

    async def _ask(self, verb: ScriptCommand, *arguments: Word) -> Reply:
        """Asked again while there is no answer: each of the scripts does the same twice."""
        engine, digest = self._engine, self._secret.digest()
        return await engine.retry(
            lambda: self._runner.run(verb, self._session_id, digest, *arguments), engine.clock.now()
        )
