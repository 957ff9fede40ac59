"""A primary with replicas, and three sentinels that monitor them: real processes on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from tests.support.eventually import eventually
from tests.support.servers import ADMIN_PASSWORD, ADMIN_USER, Server

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE = "locks"
_QUORUM = 2


class Sentinel(Server):
    """One sentinel. What it learns it writes into its configuration, which a restart keeps."""

    def __init__(self, primary: Server, *, down_after_ms: int, password: str = "") -> None:
        super().__init__(primary.flavour)
        self._login = {"requirepass": password} if password else {}
        self._monitor = [
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} {_QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}",
            f"sentinel failover-timeout {SERVICE} 5000",
            f"sentinel auth-user {SERVICE} {ADMIN_USER}",
            f"sentinel auth-pass {SERVICE} {ADMIN_PASSWORD}",
        ]

    def _config(self, overrides: Mapping[str, Any]) -> str:
        del overrides
        lines = ["bind 127.0.0.1", f"port {self.port}", f"dir {self.data}", *self._monitor]
        lines += [f"{name} {value}" for name, value in self._login.items()]
        if password := self._login.get("requirepass"):
            lines.append(f"sentinel sentinel-pass {password}")
        return "".join(f"{line}\n" for line in lines)

    def _arguments(self) -> list[str]:
        return ["--sentinel"]

    def admin(self, **options: Any) -> Any:
        login = {"username": None, "password": self._login.get("requirepass")}
        return super().admin(**{**login, **options})


class Monitored:
    """A primary, its replicas and its sentinels. ``down_after_ms`` is long, unless a test needs a fail-over: on a busy
    machine sentinels take a slow primary for a dead one."""

    def __init__(
        self, flavour: str = "valkey9", *, replicas: int = 1, down_after_ms: int = 60_000, password: str = ""
    ) -> None:
        # What a former primary needs to follow the new one.
        self.primary, *self.replicas = (
            Server(flavour, masteruser=ADMIN_USER, masterauth=ADMIN_PASSWORD) for _ in range(1 + replicas)
        )
        self._down_after_ms = down_after_ms
        self._password = password
        self.sentinels: list[Sentinel] = []

    @property
    def url(self) -> str:
        return self.url_for(*self.sentinels)

    def url_for(self, *sentinels: Server) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in sentinels)
        options = f"?sentinel_password={self._password}" if self._password else ""
        return f"redis+sentinel://{hosts}/{SERVICE}{options}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (*self.sentinels, self.primary, *self.replicas):
            server.close()

    def _start(self) -> None:
        for server in (self.primary, *self.replicas):
            server.start()
        for replica in self.replicas:
            replica.replicate_from(self.primary)
        for replica in self.replicas:
            replica.wait_until_synced()
        self.sentinels = [
            Sentinel(self.primary, down_after_ms=self._down_after_ms, password=self._password)
            for _ in range(3)
        ]
        for sentinel in self.sentinels:
            sentinel.start()
        eventually(self._is_known)

    def _is_known(self) -> bool:
        """Whether all sentinels know each other and the replicas: before that there is no fail-over."""
        for sentinel in self.sentinels:
            flat = sentinel.call("SENTINEL", "MASTER", SERVICE)
            state = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
            known = {_text(key): _text(value) for key, value in state.items()}
            if (int(known["num-slaves"]), int(known["num-other-sentinels"])) != (len(self.replicas), 2):
                return False
        return True


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
