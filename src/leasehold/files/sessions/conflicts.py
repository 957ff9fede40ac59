"""Builds the errors for a file that is held: by whom, since when, for what, for how long, and what to do next."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from leasehold.errors import FileBusy, FileTimeout, LockBusy, UpgradeRefused, describe_holder

if TYPE_CHECKING:
    from leasehold.core.replies import Mode
    from leasehold.errors import ContentionReason, Holder
    from leasehold.files.lock_store import UpgradeConflict


def is_room(holder: Holder | None) -> bool:
    """True if people edit the file together."""
    return isinstance(holder, dict) and "room" in holder


def busy_error(busy: LockBusy, path: str, *, session: str | None, wait: float | None) -> FileBusy:
    """The error of a lock as that of the file at ``path``, for a ``session`` that asked for ``wait``."""
    details: dict[str, Any] = {
        "holder": busy.holder,
        "retry_after": busy.retry_after,
        "held_since": busy.held_since,
        "mode": busy.mode,
        "waiters": busy.waiters,
        "position": busy.position,
    }
    if is_room(busy.holder):
        reason: ContentionReason = "room_busy"
    else:
        reason = "lock_timeout" if wait else "lock_contended"
    details["message"] = _message(busy, path, session, wait)
    if wait:
        return FileTimeout(path, waited=wait, reason=reason, **details)
    return FileBusy(path, reason=reason, **details)


def deadlock_error(path: str, conflict: UpgradeConflict) -> UpgradeRefused:
    """The error for the second of two readers that both want to write."""
    other = conflict.holding
    holder = other and other.holder
    return UpgradeRefused(
        path,
        reason="lock_contended",
        holder=holder,
        held_since=other and other.since,
        retry_after=conflict.remaining,
        mode="shared",
        message=(
            f"{path!r} cannot be upgraded: {describe_file_holder(holder)} reads it too and was first to ask for "
            "writing, so each would wait for the other; release the read lease, then acquire it for writing"
        ),
    )


def describe_file_holder(holder: Holder | None) -> str:
    """One readable phrase for the holder of a file."""
    if not isinstance(holder, dict):
        return "another session" if holder is None else holder
    if "room" in holder:
        return f"the room of {holder['room']}"
    if "session" not in holder:
        return describe_holder(holder)
    by = f" ({holder['by']})" if "by" in holder else ""
    return f"session {holder['session']!r}{by}"


def _message(busy: LockBusy, path: str, session: str | None, wait: float | None) -> str:
    since = ""
    if busy.held_since is not None:
        since = f" since {datetime.fromtimestamp(busy.held_since, UTC):%H:%M:%S} UTC"
    purpose = busy.holder.get("purpose") if isinstance(busy.holder, dict) else None
    what_for = f" for {purpose!r}" if purpose else ""
    until = ""
    if busy.retry_after is not None:
        until = f", and it is free in {busy.retry_after:.1f} s at the latest unless that is renewed"
    waited = f" (waited {wait:g} s)" if wait else ""
    return (
        f"{path!r} is {_describe_mode(busy.mode)} by {describe_file_holder(busy.holder)}"
        f"{since}{what_for}{until}{waited}; {_next_step(busy, session, wait)}"
    )


def _describe_mode(mode: Mode | None) -> str:
    return {"shared": "being read", "exclusive": "held for writing"}.get(mode or "", "waited for")


def _next_step(busy: LockBusy, session: str | None, wait: float | None) -> str:
    holder = busy.holder
    if is_room(holder):
        return "people edit it together: work on another file, or ask them to close the room"
    if session is not None and isinstance(holder, dict) and holder.get("session") == session:
        return "that is this very session: use that lease, upgrade it, or restore() if its process has ended"
    if wait:
        return "try again later, or work on another file first"
    return "wait for it (wait=seconds), or work on another file first"
