"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from leasehold.errors import Holder, describe_holder


def printable(text: str) -> str:
    """``text`` without anything that a terminal would obey or hide: control and direction characters."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "replace").decode()
        for character in text
    )


def holder_line(holder: Holder | None) -> str:
    """Who holds a lock."""
    return printable(describe_holder(holder))


def moment(unix_time: float) -> str:
    """``2026-03-01 14:03:11 (5 min ago)``, in local time."""
    then = datetime.fromtimestamp(unix_time, UTC).astimezone()
    # The server's clock may run ahead of ours.
    passed = max(0.0, (datetime.now(UTC) - then).total_seconds())
    return f"{then:%Y-%m-%d %H:%M:%S} ({duration(passed)} ago)"


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
