"""Finds the primary of a service that sentinels monitor."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from leasehold.errors import StoreError, StoreRefused, StoreUnavailable
from leasehold.valkey.transport import error_mapping
from leasehold.valkey.transport.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    from leasehold.valkey.transport.protocols import Reply, Word

SWITCH_CHANNEL = "+switch-master"
"""Where sentinels publish that a service has another primary."""

# A sentinel that does not reply must leave time for the others.
_PART_OF_TIMEOUT = 1 / 4


class SentinelConnection(Protocol):
    """A connection to one sentinel."""

    async def call_many(self, commands: Sequence[tuple[Word, ...]]) -> Sequence[Reply]:
        """The replies to ``commands``; `StoreUnavailable`, raised or among them, if there are none."""
        ...

    def close(self, reason: str) -> None:
        """Close the connection."""
        ...


if TYPE_CHECKING:
    OpenSentinel = Callable[[Endpoint, float], Awaitable[SentinelConnection]]
    """Connects to a sentinel, and waits as many seconds for it and for each of its replies."""


@dataclass(frozen=True, slots=True)
class SentinelGroup:
    """A service, the sentinels that monitor it, and how to log in to its servers."""

    service: str
    sentinels: tuple[Endpoint, ...]
    server: Endpoint

    def __str__(self) -> str:
        return f"{','.join(str(each) for each in self.sentinels)}/{self.service}"


class Located(NamedTuple):
    """What a sentinel replied. ``epoch`` grows with every fail-over; 0 if it is not known."""

    primary: Endpoint
    sentinel: Endpoint
    epoch: int


class PrimaryFinder:
    """Asks the sentinels of a group one after another, and remembers those that they know.

    A sentinel that is cut off from the others may name a former primary. So one that knows of fewer fail-overs than
    another one did before is believed only if no sentinel knows of more, and one whose primary cannot be used is asked
    last from then on (`doubt`).
    """

    def __init__(self, group: SentinelGroup, timeout: float) -> None:
        self.group = group
        self.epoch = 0
        """That of the primary that was located last."""
        self._timeout = timeout
        self._sentinels = group.sentinels

    @property
    def service(self) -> str:
        """The name of the service."""
        return self.group.service

    @property
    def sentinels(self) -> tuple[Endpoint, ...]:
        """Those of the URL, and those that they know."""
        return self._sentinels

    async def locate(self, open_sentinel: OpenSentinel) -> Located:
        """The primary, as far as the sentinels know it within the timeout."""
        give_up_at = time.monotonic() + self._timeout
        best: Located | None = None
        failures: list[StoreError] = []
        for sentinel in self._sentinels:
            try:
                located = await self.ask(sentinel, open_sentinel)
            except StoreError as error:
                failures.append(error)
            else:
                if best is None or located.epoch > best.epoch:
                    best = located
                if located.epoch >= self.epoch:
                    break
            self.ask_last(sentinel)
            if time.monotonic() >= give_up_at:
                break
        if best is None:
            raise self._failure(failures)
        self.epoch = best.epoch
        return best

    def doubt(self, located: Located) -> None:
        """Ask this sentinel last from now on: its primary cannot be used."""
        if located.epoch >= self.epoch:
            # Sentinels that were set up anew count from 0, while a forgotten one may still have the former epoch.
            self.epoch = 0
        self.ask_last(located.sentinel)

    def ask_last(self, sentinel: Endpoint) -> None:
        """Begin the next search with another sentinel."""
        # A new tuple each time, because threads may search at the same time.
        self._sentinels = (*(each for each in self._sentinels if each != sentinel), sentinel)

    async def connect(self, sentinel: Endpoint, open_sentinel: OpenSentinel) -> SentinelConnection:
        """A connection to ``sentinel``, logged in."""
        connection = await open_sentinel(sentinel, self._timeout * _PART_OF_TIMEOUT)
        try:
            (reply,) = await connection.call_many([login(sentinel)])
            _check_login(sentinel, reply)
        except BaseException:
            connection.close("the login failed")
            raise
        return connection

    async def ask(self, sentinel: Endpoint, open_sentinel: OpenSentinel) -> Located:
        """The primary, as ``sentinel`` knows it."""
        service = self.service
        connection = await self.connect(sentinel, open_sentinel)
        try:
            address, details, others = await connection.call_many(
                [
                    ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service),
                    ("SENTINEL", "MASTER", service),
                    ("SENTINEL", "SENTINELS", service),
                ]
            )
            if isinstance(address, Exception):
                raise _not_a_sentinel(sentinel, address)
            if address is None:
                (primaries,) = await connection.call_many([("SENTINEL", "MASTERS")])
                known = ", ".join(sorted(each["name"] for each in maps_in(primaries))) or "none"
                raise StoreRefused(
                    f"sentinel {sentinel} knows no service {service!r}; it knows: {known}; the service is "
                    "the last part of the store URL"
                )
        finally:
            connection.close("the sentinel was asked")
        self._remember(sentinel, [_address_in(each) for each in maps_in(others)])
        (known_as,) = list(maps_in([details])) or [{}]
        host, port = address
        primary = replace(self.group.server, host=host.decode(), port=int(port))
        return Located(primary, sentinel, int(known_as.get("config-epoch", 0)))

    def _remember(self, sentinel: Endpoint, others: list[tuple[str, int]]) -> None:
        """Keep the sentinels of the URL and those that exist now: where addresses change, many others existed."""
        reported = [replace(sentinel, host=host, port=port) for host, port in others]
        wanted = dict.fromkeys((sentinel, *self.group.sentinels, *reported))
        kept = [each for each in self._sentinels if each in wanted]
        self._sentinels = tuple(dict.fromkeys((*kept, *wanted)))

    def _failure(self, failures: list[StoreError]) -> StoreError:
        if all(isinstance(each, StoreRefused) for each in failures):
            return error_mapping.copy_of(failures[0])
        causes = "; ".join(dict.fromkeys(str(each) for each in failures))
        return StoreUnavailable(f"no sentinel can name the primary of the service {self.service!r}: {causes}")


def switched_to(service: str, payload: bytes) -> str | None:
    """The address of the new primary, if ``payload`` on `SWITCH_CHANNEL` is about ``service``."""
    match payload.decode(errors="replace").split():
        case [name, _, _, host, port] if name == service and port.isdecimal():
            return str(Endpoint(host, int(port)))
        case _:
            return None


def login(server: Endpoint) -> tuple[Word, ...]:
    """The first command on a connection without a handshake."""
    if server.password is None:
        return ("PING",)
    return ("AUTH", server.username or "default", server.password)


def _check_login(sentinel: Endpoint, reply: Reply) -> None:
    if isinstance(reply, StoreError):
        raise reply
    if not isinstance(reply, Exception):
        return
    code = error_mapping.code_of(str(reply))
    if code in {"NOAUTH", "WRONGPASS"}:
        raise StoreRefused(
            f"sentinel {sentinel} does not accept this login: it is sentinel_username and sentinel_password in the "
            f"store URL, apart from the servers' own ({code})"
        )
    if sentinel.password is not None:
        # Its text is not passed on: a server may repeat what it was sent, the password included.
        raise StoreRefused(f"sentinel {sentinel} refuses AUTH ({code or 'without a code'})")
    raise error_mapping.from_reply(str(reply), reply)


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


def maps_in(reply: Reply) -> Generator[dict[str, str]]:
    """The entries of a RESP2 reply that lists maps; none of an error."""
    if isinstance(reply, list):
        for flat in cast("list[list[bytes]]", reply):
            if isinstance(flat, list):  # pyright: ignore[reportUnnecessaryIsInstance] - it may be an error, too
                words = [word.decode() for word in flat]
                yield dict(zip(words[::2], words[1::2], strict=True))


def _address_in(details: dict[str, str]) -> tuple[str, int]:
    return details["ip"], int(details["port"])
