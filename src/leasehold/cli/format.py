"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from leasehold.errors import AcquireTimeout, Holder, LockBusy, describe_holder

if TYPE_CHECKING:
    from leasehold import LockInfo


def printable(text: str) -> str:
    """``text`` without anything that a terminal would obey or hide: control and direction characters."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "replace").decode()
        for character in text
    )


def holder_line(holder: Holder | None) -> str:
    """Who holds a lock."""
    return printable(describe_holder(holder))


def holders_line(info: LockInfo) -> str:
    """Who holds a lock, in one cell of a table: the first of several readers stands for all."""
    if not info.holds:
        return "-"
    more = len(info.holds) - 1
    return holder_line(info.holder) + (f" and {more} more" if more else "")


def busy_line(busy: LockBusy) -> str:
    """Why there was no lease: who has it since when and for how long, who waits, and how far we got ourselves."""
    if busy.holder is None:
        held = "goes to somebody who came first" if busy.mode is None else "is held by somebody else"
    else:
        held = f"is held{' for reading' if busy.mode == 'shared' else ''} by {holder_line(busy.holder)}"
    parts = [f"{busy.name!r} {held}"]
    if busy.held_since is not None:
        parts[0] += f" since {moment(busy.held_since)}"
    if busy.retry_after is not None and busy.mode is not None:
        parts.append(f"{duration(busy.retry_after)} left unless renewed")
    parts.append(f"{busy.waiters or 'nobody'} {'wait' if busy.waiters > 1 else 'waits'}")
    if isinstance(busy, AcquireTimeout):
        place = "" if busy.position is None else f" as number {busy.position} in the queue"
        parts.append(f"gave up after {busy.waited:.1f} s{place}")
    return "; ".join(parts)


def moment(unix_time: float) -> str:
    """``2026-03-01 14:03:11 (5 min ago)``, in local time."""
    then = datetime.fromtimestamp(unix_time, UTC).astimezone()
    return f"{then:%Y-%m-%d %H:%M:%S} ({duration(age(unix_time))} ago)"


def timestamp(unix_time: float) -> str:
    """``2026-03-01T14:03:11+01:00``: local time that sorts, and that other machines understand."""
    return datetime.fromtimestamp(unix_time, UTC).astimezone().isoformat(timespec="seconds")


def age(unix_time: float) -> float:
    """How many seconds have passed since then."""
    # The server's clock may run ahead of ours.
    return max(0.0, datetime.now(UTC).timestamp() - unix_time)


def brief(seconds: float) -> str:
    """``12 s``, ``5 min``, ``3 h``, ``4 days``: for a cell of a table."""
    for size, unit, enough in ((1, "s", 60), (60, "min", 60), (3600, "h", 48)):
        if round(seconds / size) < enough:
            return f"{round(seconds / size)} {unit}"
    return f"{round(seconds / 86400)} days"


def duration(seconds: float) -> str:
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
