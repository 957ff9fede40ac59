"""Resets clients in forked children: a child owns no lease and no connection of its parent."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """An object to reset in a child process."""

    def after_fork(self) -> None:
        """Drop the parent's connections and leases."""
        ...


_clients: weakref.WeakSet[Forkable] = weakref.WeakSet()


def register_after_fork(client: Forkable) -> None:
    """Call ``client.after_fork()`` in every child process, for as long as it lives."""
    _clients.add(client)


def _in_child() -> None:
    for client in list(_clients):
        client.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
