"""What the scripts publish: words for one client, about one of its tickets."""

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
    """Where a client listens. Nobody else knows the random part."""
    return f"leasehold:{channel}"


def pass_on(payload: bytes, tell: Callable[[Notification], None]) -> None:
    """Have ``tell`` hear what the payload says; what a newer version says in words unknown here is passed over."""
    match payload.split():
        case [b"granted", ticket, fence, now_ms, left_ms]:
            tell(Granted(int(ticket), int(fence), int(now_ms) / 1000, int(left_ms) / 1000))
        case [b"taken", ticket]:
            tell(Taken(int(ticket)))
        case _:
            _log.debug("news that this version does not understand were passed over")
