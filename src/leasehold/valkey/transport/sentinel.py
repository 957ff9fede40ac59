"""Finds the primary of a service that sentinels monitor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar, cast

from leasehold.errors import StoreError, StoreRefused
from leasehold.valkey.transport import error_mapping
from leasehold.valkey.transport.server_list import PART_OF_TIMEOUT, ServerList, connect

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator

    from leasehold.valkey.transport.blocking_connection import BlockingConnection
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Reply, Word

T = TypeVar("T")

SWITCH_CHANNEL = "+switch-master"
"""Where sentinels publish that a service has another primary."""


@dataclass(frozen=True, slots=True)
class SentinelGroup:
    """A service, the sentinels that monitor it, and how to log in to its servers."""

    service: str
    sentinels: tuple[Endpoint, ...]
    server: Endpoint

    def __str__(self) -> str:
        return f"{','.join(str(each) for each in self.sentinels)}/{self.service}"


class PrimaryFinder:
    """Asks the sentinels of a group one after another, first the one that replied last; remembers those they know."""

    def __init__(self, group: SentinelGroup, timeout: float) -> None:
        self._group = group
        self._timeout = timeout * PART_OF_TIMEOUT
        self._sentinels = ServerList(group.sentinels)

    @property
    def service(self) -> str:
        """The name of the service."""
        return self._group.service

    @property
    def first(self) -> Endpoint:
        """The sentinel to ask first."""
        return self._sentinels.first

    def locate(self) -> Endpoint:
        """The primary's address, as the first sentinel that replies knows it; blocks."""
        return self._ask_in_turn(self._ask)

    def connect(self, track: Callable[[socket.socket], None]) -> BlockingConnection:
        """A connection to the first sentinel that replies, to subscribe on; blocks."""
        return self._ask_in_turn(lambda sentinel: self._connect(sentinel, track))

    def _ask_in_turn(self, ask: Callable[[Endpoint], T]) -> T:
        silence = f"no sentinel of the service {self._group.service!r} replies"
        return self._sentinels.ask(ask, silence=silence)

    def _connect(self, sentinel: Endpoint, track: Callable[[socket.socket], None]) -> BlockingConnection:
        connection = connect(sentinel, self._timeout, track)
        try:
            (reply,) = connection.call_many(login(sentinel))
            check_login(sentinel, reply)
        except BaseException:
            connection.close()
            raise
        return connection

    def _ask(self, sentinel: Endpoint) -> Endpoint:
        service = self._group.service
        connection = self._connect(sentinel, lambda _socket: None)
        try:
            address, others = connection.call_many(
                [("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service), ("SENTINEL", "SENTINELS", service)]
            )
            if isinstance(address, Exception):
                raise _not_a_sentinel(sentinel, address)
            if address is None:
                (primaries,) = connection.call_many([("SENTINEL", "MASTERS")])
                known = ", ".join(sorted(each["name"] for each in _maps(primaries))) or "none"
                raise StoreRefused(
                    f"sentinel {sentinel} knows no service {service!r}; it knows: {known}; the service is "
                    "the last part of the store URL"
                )
        finally:
            connection.close()
        for each in _maps(others):
            self._sentinels.add(replace(sentinel, host=each["ip"], port=int(each["port"])))
        host, port = address
        return replace(self._group.server, host=host.decode(), port=int(port))


def login(sentinel: Endpoint) -> list[tuple[Word, ...]]:
    """The first command on a connection to a sentinel."""
    if sentinel.password is None:
        return [("PING",)]
    return [("AUTH", sentinel.username or "default", sentinel.password)]


def check_login(sentinel: Endpoint, reply: Reply) -> None:
    """Raise what the ``reply`` to `login` says."""
    if isinstance(reply, StoreError):
        raise reply
    if not isinstance(reply, Exception):
        return
    if error_mapping.code_of(str(reply)) in {"NOAUTH", "WRONGPASS"}:
        raise StoreRefused(
            f"sentinel {sentinel} does not accept this login: it is sentinel_username and sentinel_password in the "
            f"store URL, apart from the servers' own ({error_mapping.code_of(str(reply))})"
        ) from reply
    raise error_mapping.from_reply(str(reply), reply)


def switched_to(service: str, payload: bytes) -> str | None:
    """The address of the new primary, if ``payload`` on `SWITCH_CHANNEL` is about ``service``."""
    match payload.decode(errors="replace").split():
        case [name, _, _, host, port] if name == service:
            return f"{host}:{port}"
        case _:
            return None


def _not_a_sentinel(sentinel: Endpoint, error: Exception) -> StoreError:
    if isinstance(error, StoreError):
        return error
    if "unknown command" in str(error):
        refusal = StoreRefused(
            f"{sentinel} is not a sentinel; a store URL with sentinels names those, by default with port 26379, and not "
            "the servers that they monitor"
        )
        refusal.__cause__ = error
        return refusal
    return error_mapping.from_reply(str(error), error)


def _maps(reply: Reply) -> Generator[dict[str, str]]:
    """The entries of a RESP2 reply that lists maps; none of an error."""
    if isinstance(reply, list):
        for flat in cast("list[list[bytes]]", reply):
            words = [word.decode() for word in flat]
            yield dict(zip(words[::2], words[1::2], strict=True))
