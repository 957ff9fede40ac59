"""Notifications that the scripts publish for one client: its channel and their parser."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from leasehold.core.replies import Granted, Taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.replies import Notification

_log = logging.getLogger("leasehold")


def new_channel() -> str:
    """The random part of the name of a client's own channel."""
    return os.urandom(8).hex()


def channel_name(channel: str) -> str:
    """The name of a client's channel. Its random part is secret."""
    return f"leasehold:{channel}"


def dispatch(payload: bytes, handle: Callable[[Notification], None]) -> None:
    """Call ``handle`` with the notification in ``payload``; unknown ones, of a newer version, are ignored."""
    match payload.split():
        case [b"granted", ticket, fence, now_ms, left_ms]:
            handle(Granted(int(ticket), int(fence), int(now_ms) / 1000, int(left_ms) / 1000))
        case [b"taken", ticket]:
            handle(Taken(int(ticket)))
        case _:
            _log.debug("ignored a notification that this version does not know")
