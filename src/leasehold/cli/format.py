"""Formats values for people: durations, times, holders and busy locks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from leasehold.errors import AcquireTimeout, Holder, LockBusy, describe_holder

if TYPE_CHECKING:
    from leasehold import LockInfo


def printable(text: str) -> str:
    """``text`` with control and direction characters escaped, which a terminal would obey or hide."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "replace").decode()
        for character in text
    )


def format_holder(holder: Holder | None) -> str:
    """The holder of a lock as text."""
    return printable(describe_holder(holder))


def format_holders(info: LockInfo) -> str:
    """The holders of a lock in one table cell: the first one, and the number of the others."""
    if not info.holds:
        return "-"
    more = len(info.holds) - 1
    return format_holder(info.holder) + (f" and {more} more" if more else "")


def describe_busy(busy: LockBusy) -> str:
    """Why no lease was granted: the holder, since when and for how long, the waiters, and our place in the queue."""
    if busy.holder is None:
        held = "goes to an earlier waiter" if busy.mode is None else "is held by another holder"
    else:
        held = f"is held{' for reading' if busy.mode == 'shared' else ''} by {format_holder(busy.holder)}"
    parts = [f"{busy.name!r} {held}"]
    if busy.held_since is not None:
        parts[0] += f" since {format_time(busy.held_since)}"
    if busy.retry_after is not None and busy.mode is not None:
        parts.append(f"{format_duration(busy.retry_after)} left unless renewed")
    parts.append(f"{busy.waiters or 'no'} waiter{'' if busy.waiters == 1 else 's'}")
    if isinstance(busy, AcquireTimeout):
        place = "" if busy.position is None else f" as number {busy.position} in the queue"
        parts.append(f"gave up after {busy.waited:.1f} s{place}")
    return "; ".join(parts)


def format_time(unix_time: float) -> str:
    """``2026-03-01 14:03:11 (5 min ago)``, in local time."""
    then = datetime.fromtimestamp(unix_time, UTC).astimezone()
    return f"{then:%Y-%m-%d %H:%M:%S} ({format_duration(seconds_since(unix_time))} ago)"


def format_timestamp(unix_time: float) -> str:
    """``2026-03-01T14:03:11+01:00``: local time that sorts and has its offset."""
    return datetime.fromtimestamp(unix_time, UTC).astimezone().isoformat(timespec="seconds")


def seconds_since(unix_time: float) -> float:
    """Seconds since then, never negative."""
    # The server's clock may be ahead of ours.
    return max(0.0, datetime.now(UTC).timestamp() - unix_time)


def format_brief(seconds: float) -> str:
    """``12 s``, ``5 min``, ``3 h``, ``4 days``: a duration for a table cell."""
    for size, unit, enough in ((1, "s", 60), (60, "min", 60), (3600, "h", 48)):
        if round(seconds / size) < enough:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds / 86400)} days"


def format_duration(seconds: float) -> str:
    """``0.8 ms``, ``12.3 s``, ``5 min``, ``3 h 20 min``, ``4 days``."""
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // (24 * 60)} days"
