"""The address and credentials of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. Its password never shows in a repr, a log or an error.

    ``service`` is the name under which sentinels monitor it: then it must be the primary. ``in_cluster``: it must be a
    primary of a cluster.
    """

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    service: str | None = None
    in_cluster: bool = False

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.path else f"{self.host}:{self.port}"
