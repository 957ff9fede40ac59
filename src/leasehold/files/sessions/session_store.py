"""Stores a session and its history in Valkey: the digest of its secret, and the entries of its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.core.validity import to_ms
from leasehold.errors import NotAllowed
from leasehold.files import scripts
from leasehold.files.sessions.entries import decode_entry
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.files.sessions.context import SessionContext
    from leasehold.files.sessions.credentials import Secret
    from leasehold.files.sessions.entries import Entry
    from leasehold.valkey.transport.protocols import Reply, Word

ANYTHING = "*"
"""As ``expected``: any entry, or none."""


def unchanged_or_absent(entry: Entry) -> str:
    """As ``expected``: the entry itself, or none, because history may be kept for a shorter time than a lock's wait."""
    return "?" + entry.encode()


class EntryChange(NamedTuple):
    """Writes ``entry``, or removes it if that is empty, provided that what is stored is as ``expected``."""

    field: str
    expected: str
    entry: str


class SessionStore:
    """The record of one session. Every use of it extends its time in the store.

    A session that the store has forgotten (unused for too long, or with all its data) is registered again by a process
    that has its secret, with the entries of ``held``. `NotAllowed` if there is another session of that id by now.
    """

    def __init__(
        self,
        context: SessionContext[Any],
        session_id: str,
        secret: Secret,
        held: Callable[[], Sequence[Entry]],
    ) -> None:
        settings, namespace = context.settings, context.session_namespace
        self._engine = context.engine
        self._runner = ScriptRunner(context.wire)
        self._session_id = session_id
        self._secret = secret
        self._held = held
        self._ttl_ms = to_ms(settings.session_ttl)
        self._history_ms = to_ms(settings.history_ttl or settings.session_ttl)
        self._open = ScriptCommand(namespace, scripts.OPEN_SESSION, "session")
        self._change_entries = ScriptCommand(namespace, scripts.CHANGE_ENTRIES, "session")
        self._read_entries = ScriptCommand(namespace, scripts.READ_ENTRIES, "session")

    async def open(self) -> int:
        """The epoch of this opening; `NotAllowed` if the stored session has another secret."""
        digest, epoch = await self._ask(self._open, self._ttl_ms)
        if not self._secret.matches(digest.decode()):
            raise NotAllowed(
                f"there is a session {self._session_id!r} already, and only its own secret opens it: "
                "pass that as secret=…, or choose another id"
            )
        return int(epoch)

    async def change(self, changes: Sequence[EntryChange]) -> bool:
        """Make all of the changes; False, and nothing is changed, if something is not as expected."""
        reply = await self._change(changes)
        if reply == -1:
            await self._register_again()
            reply = await self._change(changes)
        return self._checked(reply) == 1

    async def remove(self, entries: Sequence[Entry]) -> None:
        """Remove these entries, except those that another process has changed since: their leases are its own.

        If the store has forgotten the session, it has forgotten them, too.
        """
        changes = [EntryChange(entry.field, entry.encode(), "") for entry in entries]
        if changes and await self._change(changes) == 0 and len(changes) > 1:
            for change in changes:
                await self._change([change])

    async def remove_own(self, entry: Entry) -> None:
        """Remove the entry if this opening of the session was the last to change it, also by a request without a reply."""
        if await self._change([EntryChange(entry.field, entry.encode(), "")]) == 0:
            found = await self.entries()
            await self.remove([it for it in found if (it.field, it.epoch) == (entry.field, entry.epoch)])

    async def entries(self) -> list[Entry]:
        """All entries, the oldest first."""
        reply = await self._ask(self._read_entries, self._ttl_ms, self._history_ms)
        if reply[0] == -1:
            await self._register_again()
            reply = await self._ask(self._read_entries, self._ttl_ms, self._history_ms)
        self._checked(reply[0])
        found = [
            decode_entry(field.decode(), text.decode())
            for field, text in zip(reply[1::2], reply[2::2], strict=True)
        ]
        return sorted(found, key=lambda entry: (entry.since, entry.field))

    async def _register_again(self) -> None:
        await self.open()
        if held := self._held():
            await self._change([EntryChange(entry.field, ANYTHING, entry.encode()) for entry in held])

    async def _change(self, changes: Sequence[EntryChange]) -> int:
        return await self._ask(self._change_entries, self._ttl_ms, self._history_ms, json.dumps(changes))

    def _checked(self, reply: int) -> int:
        if reply == -1:
            raise NotAllowed(
                f"session {self._session_id!r} has ended, and its secret is not valid any longer"
            )
        return reply

    async def _ask(self, verb: ScriptCommand, *arguments: Word) -> Reply:
        """Repeated while there is no reply: each of the scripts can run twice with the same result."""
        engine, digest = self._engine, self._secret.digest()
        return await engine.retry(
            lambda: self._runner.run(verb, self._session_id, digest, *arguments), engine.clock.now()
        )
