"""What a forked child must know: it owns nothing of what its parent holds."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that must be told when it wakes up in a child process."""

    def after_fork(self) -> None:
        """Let go of the parent's connections and leases."""
        ...


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register_after_fork(client: Forkable) -> None:
    """Have ``client`` told in every child process, for as long as it lives."""
    _known.add(client)


def _in_child() -> None:
    for client in list(_known):
        client.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
