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
    primary of a cluster. A grant counts only once ``min_replicas`` of its replicas have acknowledged it.
    """

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    service: str | None = None
    min_replicas: int = 0
    in_cluster: bool = False

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
