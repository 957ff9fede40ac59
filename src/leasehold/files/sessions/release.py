"""Releases the files of a session: one, one by its path, or all of them."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from leasehold.core.multi_lock import release_each
from leasehold.core.replies import DONE
from leasehold.errors import LeaseLost, StoreError

if TYPE_CHECKING:
    from leasehold.files.sessions.context import Path
    from leasehold.files.sessions.entries import Entry
    from leasehold.files.sessions.held_file import HeldFile
    from leasehold.files.sessions.session import AnySession

_log = logging.getLogger("leasehold.files")


async def release_file(session: AnySession, hold: HeldFile[Any]) -> None:
    """End its leases, and then remove its entry: a crash in between leaves an entry without a lock, not the opposite."""
    await session.context.run_attempt("release", hold.path, lambda: _release_file(session, hold))


async def _release_file(session: AnySession, hold: HeldFile[Any]) -> None:
    lost: LeaseLost | None = None
    await hold.stop_upgrading()
    try:
        with hold.loss_by_path():
            await release_each(session.engine, list(hold))
    except LeaseLost as error:
        lost = error
    except StoreError as error:
        _log.warning("session %s: releasing %r failed: %s", session.session_id, hold.path, error.code)
        raise
    session.held.pop(hold.entry.field, None)
    # In a forked child it is still the parent's.
    if not hold.is_forgotten and all(lease.is_ours for lease in hold):
        await session.store.remove_own(hold.entry)
        hold.is_forgotten = True
        _log.info("session %s: %r is %s", session.session_id, hold.path, "lost" if lost else "released")
    if lost is not None:
        raise lost


async def release_path(session: AnySession, path: Path) -> bool:
    """Release what this or an earlier process of the session holds of the file; False if that is nothing."""
    file = await session.context.identify(path)
    for hold in reversed(list(session.held.values())):
        if file.sha256 in hold.entry.names:
            await release_file(session, hold)
            return True
    entries = await session.context.watch_outage(session.store.entries())
    own = [entry for entry in entries if file.sha256 in entry.names]
    released = [await _release_entry(session, entry) for entry in own]
    await session.store.remove(own)
    return any(released)


async def release_session_locks(session: AnySession) -> list[str]:
    """Release everything that any process of the session holds; clear its history and its rate limit."""
    released: list[str] = []
    for hold in list(session.held.values()):
        with suppress(LeaseLost):  # a lost lease is not held either
            await release_file(session, hold)
            released.append(hold.path)
    entries = await session.context.watch_outage(session.store.entries())
    released += [entry.path for entry in entries if await _release_entry(session, entry)]
    await session.store.remove(entries)
    await session.context.limits.clear(session.session_id)
    _log.info("session %s: %d files released", session.session_id, len(released))
    return released


async def _release_entry(session: AnySession, entry: Entry) -> bool:
    return await session.context.run_attempt("release", entry.path, lambda: end_leases(session, entry))


async def end_leases(session: AnySession, entry: Entry) -> bool:
    """End every lease that there may be behind an entry, of whichever process; False if there was none."""
    engine, lock_store = session.engine, session.context.lock_store
    found = False
    for name in entry.names:
        for token in session.identity.possible_tokens(entry, name):
            ask = partial(lock_store.release, name, token, 0, None)
            answer = await engine.retry(ask, engine.clock.now())
            found = found or answer is DONE
    return found
