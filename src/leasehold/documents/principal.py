"""Who is asking, as the host application's sign-in says."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Principal:
    """A signed-in user. The sign-in is good until ``expires_at`` (Unix seconds), or until ``session_id`` is ended."""

    user_id: str
    user_name: str
    expires_at: float = math.inf
    session_id: str = ""

    @property
    def id(self) -> str:
        """The user's id."""
        return self.user_id

    @property
    def name(self) -> str:
        """The user's name, for showing to others."""
        return self.user_name


Authenticate = Callable[[str], Awaitable[Any]]
"""Who a token speaks for: a `Principal` or anything with ``id`` and ``name``; None if it is not a good one."""


def principal_of(user: Any) -> Principal:
    """The host application's own idea of a user, which has an ``id`` and a ``name``, as a principal."""
    if isinstance(user, Principal):
        return user
    return Principal(
        str(user.id),
        str(user.name),
        float(getattr(user, "expires_at", None) or math.inf),
        str(getattr(user, "session_id", None) or ""),
    )
