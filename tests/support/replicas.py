"""A primary and its replica: real processes on loopback."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from tests.support.servers import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


class ReplicatedServer:
    """A primary with one replica, which can be made to acknowledge nothing for a while."""

    def __init__(self, flavour: str = "valkey9", **options: Any) -> None:
        # A replica that is away stays connected, so that it is only its acknowledgement that is missing.
        self.primary = Server(flavour, repl_timeout=600, **options)
        self.replica = Server(flavour, repl_timeout=600)

    @property
    def url(self) -> str:
        return self.url_for(1)

    def url_for(self, min_replicas: int) -> str:
        return f"{self.primary.url}?min_replicas={min_replicas}"

    @contextmanager
    def replica_away(self) -> Iterator[None]:
        """The replica is stopped (SIGSTOP), and has caught up at the end."""
        self.replica.pause()
        try:
            yield
        finally:
            self.replica.resume()
        self.replica.wait_until_synced()

    def waits(self) -> int:
        """How many WAITs the primary has begun to run."""
        stats = self.primary.info("commandstats")
        return int(stats.get("cmdstat_wait", {}).get("calls", 0))

    def blocked_clients(self) -> int:
        """How many clients wait for the replica now."""
        return int(self.primary.info("clients")["blocked_clients"])

    def __enter__(self) -> Self:
        try:
            self.primary.start()
            self.replica.start()
            self.replica.replicate_from(self.primary)
            self.replica.wait_until_synced()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.replica.close()
        self.primary.close()
