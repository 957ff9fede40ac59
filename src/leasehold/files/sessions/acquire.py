"""Acquires files for a session, all of them or none. The history names a file before its lock is requested."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.core.leases.lease import LeaseState
from leasehold.core.multi_lock import acquire_in_turn, release_in_background, try_acquire_all
from leasehold.errors import LockBusy, StoreUnavailable
from leasehold.files.sessions.claims import lock_mode, lock_names, mark_held
from leasehold.files.sessions.conflicts import busy_error
from leasehold.files.sessions.context import check_purpose, ignore_failure
from leasehold.files.sessions.entries import Entry
from leasehold.files.sessions.held_file import FileVerbs, lost_file
from leasehold.files.sessions.release import end_leases, release_file
from leasehold.files.sessions.session import Doubt
from leasehold.files.sessions.session_store import ANYTHING, EntryChange, unchanged_or_absent
from leasehold.files.sessions.upgrade import upgrade_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.files.paths.identity import FileId
    from leasehold.files.sessions.context import Path
    from leasehold.files.sessions.entries import Access
    from leasehold.files.sessions.held_file import HeldFile
    from leasehold.files.sessions.session import AnySession, SessionCore

L = TypeVar("L", bound=LeaseState)
H = TypeVar("H", bound="HeldFile[Any]")


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which files are acquired."""

    ttl: float
    trimmed: bool
    wait: float | None
    purpose: str | None
    renew: bool


def make_terms(
    session: AnySession, ttl: float | None, wait: float | None, purpose: Any, *, renew: bool
) -> Terms:
    """Validate the arguments of a call before anything is sent, with the defaults of the session and the settings."""
    allowed, trimmed = session.trim_ttl(ttl)
    wait = session.context.effective_wait(wait)
    return Terms(allowed, trimmed, wait, check_purpose(purpose or session.purpose), renew)


async def acquire_one(session: SessionCore[L, H], path: Path, access: Access, terms: Terms) -> H:
    """The file, held; if this raises, nothing of it is left behind."""
    file = await session.context.identify(path, verb=access)
    (hold,) = await _attempt(session, access, [file], terms)
    return hold


async def acquire_all(
    session: SessionCore[L, H], paths: Iterable[Path], terms: Terms
) -> tuple[list[H], dict[str, H]]:
    """All of the files for writing, or none; also by the paths as they were given."""
    by_spelling = await session.context.identify_all(paths)
    files = list({file.sha256: file for file in by_spelling.values()}.values())
    holds = await _attempt(session, "write", files, terms)
    by_name = {name: hold for hold in holds for name in hold.entry.names}
    return holds, {spelling: by_name[file.sha256] for spelling, file in by_spelling.items()}


async def record_held(
    session: SessionCore[L, H],
    entries: Sequence[Entry],
    leases: Sequence[L],
    access: Access,
    *,
    trimmed: bool = False,
) -> list[H]:
    """Record in the history that the session holds these files, and only then return them as held.

    Raises `LeaseLost` if another process of the session is restoring them, which takes them from this one.
    """
    by_name = {lease.name: lease for lease in leases}
    held = mark_held(entries, leases, access)
    changes = [
        EntryChange(entry.field, unchanged_or_absent(before), entry.encode())
        for before, entry in zip(entries, held, strict=True)
    ]
    if not await session.store.change(changes):
        raise lost_file(entries[0].path, "taken")
    verbs = FileVerbs(partial(release_file, session), partial(upgrade_file, session), session.trim_ttl)
    holds: list[H] = []
    for entry in held:
        own = [by_name[name] for name in entry.names]
        hold = session.make_lease(session.engine, own, verbs, entry, trimmed=trimmed)
        session.held[entry.field] = hold
        holds.append(hold)
    return holds


async def _attempt(session: AnySession, access: Access, files: Sequence[FileId], terms: Terms) -> list[Any]:
    paths = ", ".join(file.path for file in files)
    held: list[HeldFile[Any]] = []
    try:
        return await session.context.run_attempt(
            access, paths, lambda: _acquire(session, files, access, terms, held)
        )
    except BaseException:
        discard(session, held)
        raise


def discard(session: AnySession, holds: Sequence[HeldFile[Any]]) -> None:
    """Release files in the background that the caller did not get, because a signal handler raised."""
    for hold in holds:
        hold.release_in_background()
        session.held.pop(hold.entry.field, None)


async def _acquire(
    session: AnySession,
    files: Sequence[FileId],
    access: Access,
    terms: Terms,
    held: list[HeldFile[Any]],
) -> list[Any]:
    """Return the files, held; ``held`` has them too."""
    await session.context.limits.check(session.session_id, access)
    engine, identity, store = session.engine, session.identity, session.store
    started_at = engine.clock.now()
    entries = _make_entries(session, files, access, terms)
    before: list[Entry] = []
    leases: list[LeaseState] | None = None
    try:
        await _record_asked(session, entries)
        await _remove_ended_doubts(session)
        if access == "write" and len(lock_names(entries)) > 1:
            leases = await try_acquire_all(
                engine, lock_names(entries), terms.ttl, None, terms.renew, None, None, identity.own(entries)
            )
            if leases is None:
                # With new tokens: the release of one of the first ones may still be on its way.
                before, entries = entries, _make_entries(session, files, access, terms)
                await _record_asked(session, entries, instead_of=before)
        if leases is None:
            leases = await acquire_in_turn(
                engine,
                lock_names(entries),
                terms.ttl,
                terms.wait,
                started_at,
                lock_mode(access),
                None,
                terms.renew,
                owners=identity.own(entries),
            )
        held += await record_held(session, entries, leases, access, trimmed=terms.trimmed)
    except BaseException as error:
        release_in_background(engine, leases or ())
        for entry in entries:
            session.held.pop(entry.field, None)
        asked = [*before, *entries]
        if isinstance(error, LockBusy):
            await ignore_failure(store.remove(asked))
            path = next(entry.path for entry in entries if error.name in entry.names)
            raise busy_error(error, path, session=session.session_id, wait=terms.wait) from error
        versions = [asked] if leases is None else [asked, mark_held(entries, leases, access)]
        if isinstance(error, StoreUnavailable):
            # The request may still arrive, and then only the entry shows the lease.
            session.doubts.append(Doubt(engine.clock.now() + 2 * terms.ttl, versions))
        elif isinstance(error, Exception):
            await ignore_failure(_undo(session, versions))
        else:  # cancelled: the caller does not wait for it
            engine.concurrency.spawn(ignore_failure(_undo(session, versions)))
        raise
    return held


async def _undo(session: AnySession, versions: Sequence[Sequence[Entry]]) -> None:
    """End the leases that may exist behind the entries, and only then remove these, in whichever version is stored."""
    for entry in versions[0]:
        await end_leases(session, entry)
    for version in versions:
        await session.store.remove(version)


async def _remove_ended_doubts(session: AnySession) -> None:
    """Remove entries of requests without a reply once any lease behind them has ended."""
    now = session.engine.clock.now()
    for doubt in [doubt for doubt in session.doubts if doubt.ends_at < now]:
        for version in doubt.versions:
            await session.store.remove(version)
        with suppress(ValueError):  # another thread has removed it
            session.doubts.remove(doubt)


def _make_entries(session: AnySession, files: Sequence[FileId], access: Access, terms: Terms) -> list[Entry]:
    field, since = secrets.token_hex(8), session.context.now()
    # Links to one file are one entry: they share a lock, so none of them can be restored or released by itself.
    linked: dict[str, list[FileId]] = {}
    for file in files:
        linked.setdefault(file.inode_sha256 or file.sha256, []).append(file)
    return [
        Entry(
            f"{field}-{number}",
            links[0].path,
            tuple(dict.fromkeys([*[file.sha256 for file in links], inode])),
            access,
            "asked",
            terms.ttl,
            since,
            session.identity.epoch,
            purpose=terms.purpose,
            links=tuple(file.path for file in links[1:]),
        )
        for number, (inode, links) in enumerate(linked.items())
    ]


async def _record_asked(
    session: AnySession, entries: Sequence[Entry], *, instead_of: Sequence[Entry] = ()
) -> None:
    await session.store.change(
        [
            *[EntryChange(entry.field, ANYTHING, entry.encode()) for entry in entries],
            *[EntryChange(entry.field, ANYTHING, "") for entry in instead_of],
        ]
    )
