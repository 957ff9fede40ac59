"""A primary with replicas, and three sentinels that monitor them: real processes on loopback."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Self

import redis

from tests.support.eventually import eventually
from tests.support.proxy import FaultProxy
from tests.support.servers import ADMIN_PASSWORD, ADMIN_USER, Server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.servers import Flavour

SERVICE = "locks"
FAILOVER_TIMEOUT_MS = 5000


class Sentinel(Server):
    """One sentinel. What it learns it writes into its configuration, which a restart keeps."""

    def __init__(
        self,
        flavour: Flavour,
        host: str,
        primary_port: int,
        *,
        quorum: int,
        down_after_ms: int,
        password: str,
    ) -> None:
        super().__init__(flavour)
        self.id = secrets.token_hex(20)
        self._login = {"requirepass": password} if password else {}
        self._monitor = [
            f"sentinel myid {self.id}",
            *(
                ["sentinel resolve-hostnames yes", "sentinel announce-hostnames yes"]
                if host == "localhost"
                else []
            ),
            f"sentinel monitor {SERVICE} {host} {primary_port} {quorum}",
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
            f"sentinel auth-user {SERVICE} {ADMIN_USER}",
            f"sentinel auth-pass {SERVICE} {ADMIN_PASSWORD}",
        ]

    def introduce(self, sentinels: list[Sentinel], replicas: list[Server]) -> None:
        """Know the others from the start: they find each other by themselves, but that takes two seconds."""
        for each in sentinels:
            if each is not self:
                self._monitor.append(f"sentinel known-sentinel {SERVICE} 127.0.0.1 {each.port} {each.id}")
        for each in replicas:
            self._monitor.append(f"sentinel known-replica {SERVICE} 127.0.0.1 {each.port}")

    def _config(self, overrides: Mapping[str, Any]) -> str:
        del overrides
        lines = ["bind 127.0.0.1 ::1", f"port {self.port}", f"dir {self.data}", *self._monitor]
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
    machine sentinels take a slow primary for a dead one. With `cuts`, sentinels and replicas reach the primary through
    the proxy `link`."""

    def __init__(
        self,
        flavour: str = "valkey9",
        *,
        replicas: int = 1,
        sentinels: int = 3,
        host: str = "127.0.0.1",
        down_after_ms: int = 60_000,
        password: str = "",
        cuts: bool = False,
    ) -> None:
        # What a former primary needs to follow the new one.
        self.primary, *self.replicas = (
            Server(flavour, bind="127.0.0.1 ::1", masteruser=ADMIN_USER, masterauth=ADMIN_PASSWORD)
            for _ in range(1 + replicas)
        )
        self._number = sentinels
        self._host = host
        self._down_after_ms = down_after_ms
        self._password = password
        self._cuts = cuts
        self.link: FaultProxy | None = None
        self.sentinels: list[Sentinel] = []

    @property
    def url(self) -> str:
        return self.url_for(*self.sentinels)

    def url_for(self, *sentinels: Server) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        hosts = ",".join(f"{host}:{each.port}" for each in sentinels)
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
        if self.link is not None:
            self.link.close()

    def _start(self) -> None:
        for server in (self.primary, *self.replicas):
            server.start()
        if self._cuts:
            self.link = FaultProxy(self.primary.port)
        port = self.primary.port if self.link is None else self.link.port
        for replica in self.replicas:
            replica.replicate_from(self.primary, via=port)
        for replica in self.replicas:
            replica.wait_until_synced()
        self.sentinels = [
            Sentinel(
                self.primary.flavour,
                self._host,
                port,
                quorum=self._number // 2 + 1,
                down_after_ms=self._down_after_ms,
                password=self._password,
            )
            for _ in range(self._number)
        ]
        for sentinel in self.sentinels:
            sentinel.introduce(self.sentinels, self.replicas)
        for sentinel in self.sentinels:
            sentinel.start()
        eventually(self._is_known)

    def _is_known(self) -> bool:
        """Whether all sentinels know each other and the replicas: before that there is no fail-over."""
        for sentinel in self.sentinels:
            flat = sentinel.call("SENTINEL", "MASTER", SERVICE)
            state = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
            known = {_text(key): _text(value) for key, value in state.items()}
            others = len(self.sentinels) - 1
            if (int(known["num-slaves"]), int(known["num-other-sentinels"])) != (len(self.replicas), others):
                return False
            try:
                sentinel.call("SENTINEL", "CKQUORUM", SERVICE)
            except redis.ResponseError:  # it has not reached the others yet
                return False
        return True


def ask(server: Server, *command: str) -> Any:
    """The reply of a server that sentinels may be reconfiguring: then they end all its connections, this one as well."""

    def reply() -> tuple[Any] | None:
        try:
            return (server.call(*command),)
        except redis.ConnectionError:
            return None

    return eventually(reply)[0]  # type: ignore[index]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
