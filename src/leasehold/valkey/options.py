"""The options of a client: the validated arguments of ``connect``."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.core import validation
from leasehold.errors import InvalidRequest
from leasehold.valkey.transport import store_url
from leasehold.valkey.transport.cluster.slot_map import ClusterNodes
from leasehold.valkey.transport.endpoint import Endpoint
from leasehold.valkey.transport.sentinel import PrimaryFinder, SentinelGroup

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path


# A cold start of the embedded server includes starting two processes; on a loaded machine that takes
# longer than any reply should.
_EMBEDDED_CONNECT_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """The server, the timeouts, and the name of the client's connections."""

    server: Endpoint | SentinelGroup | ClusterNodes | None
    data_dir: Path | str | None
    timeout: float
    client_name: str
    allow_eviction: bool
    max_connections: int | None
    finder: PrimaryFinder | None = None
    find: Callable[[], Endpoint] | None = None
    """Returns the server to connect to, which may be another one each time; blocks."""

    @property
    def connect_timeout(self) -> float:
        """Seconds to wait for a connection."""
        return self.timeout if self.server is not None else max(self.timeout, _EMBEDDED_CONNECT_TIMEOUT)

    @property
    def login(self) -> Endpoint | None:
        """How to log in to the servers; None for an embedded one."""
        if isinstance(self.server, ClusterNodes):
            return self.server.seeds[0]
        return self.server.server if isinstance(self.server, SentinelGroup) else self.server

    @property
    def min_replicas(self) -> int:
        """How many replicas have to acknowledge a grant; 0 if it counts without."""
        return 0 if self.login is None else self.login.min_replicas

    @property
    def where(self) -> str:
        """The server's address, without its password, for logs."""
        return "embedded" if self.server is None else str(self.server)

    def locate(self) -> Endpoint:
        """The server to connect to, without sentinels; blocks while it is searched for, or an embedded one is being started."""
        if isinstance(self.server, Endpoint):
            return self.server
        if self.find is not None:
            return self.find()
        from leasehold.valkey.embedded import ensure_running  # noqa: PLC0415 - only where it is used

        return Endpoint(path=str(ensure_running(self.data_dir, timeout=self.connect_timeout)))


def check_options(
    url: str | None,
    *,
    timeout: float,
    data_dir: Path | str | None,
    tls: ssl.SSLContext | None,
    client_name: str | None,
    allow_eviction: bool,
    max_connections: int | None,
) -> Options:
    """Validate the arguments of ``connect`` before anything is sent."""
    validation.check_duration(timeout, "timeout")
    if url is not None and data_dir is not None:
        raise InvalidRequest("data_dir belongs to the embedded server; leave it out, or leave the URL out")
    if max_connections is not None and max_connections < 1:
        raise InvalidRequest(
            f"max_connections must be at least 1, or None for no limit, not {max_connections!r}"
        )
    if client_name is None:
        client_name = f"leasehold-{os.getpid()}"
    elif not client_name or not all("!" <= character <= "~" for character in client_name):
        raise InvalidRequest("a client name is made of printable ASCII characters without spaces")
    server = None if url is None else store_url.parse(url, tls=tls)
    finder = PrimaryFinder(server, timeout) if isinstance(server, SentinelGroup) else None
    return Options(server, data_dir, timeout, client_name, allow_eviction, max_connections, finder)


def default_holder() -> str:
    """The default holder of a lock: ``user@host:pid``."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a user id that has no name
        user = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return f"{user}@{socket.gethostname()}:{os.getpid()}"
