"""The servers of a store: its sentinels, its primary, its replicas, and their clocks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import StoreError
from leasehold.valkey.transport.endpoint import Endpoint
from leasehold.valkey.transport.sentinel import login, maps_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.valkey.transport.protocols import Transport, Word


# Fields of a line of CLUSTER NODES before the slots.
_NO_SLOTS = 8


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A server's clock minus that of this machine, in seconds, and how far that may be off."""

    ahead: float
    error: float


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica, as the primary knows it. Without a clock it could not be asked."""

    address: str
    state: str
    bytes_behind: int
    clock: ClockReading | None


@dataclass(frozen=True, slots=True)
class Sentinel:
    """One sentinel's view of the service; ``failure`` if it has none."""

    address: str
    failure: str | None = None
    primary: str = ""
    quorum: int = 0
    others: int = 0
    down_after: float = 0.0
    failover_timeout: float = 0.0
    has_quorum: bool = False


@dataclass(frozen=True, slots=True)
class Shard:
    """A primary of a cluster, as the node that was asked knows it."""

    primary: str
    slots: int
    is_reachable: bool
    replicas: int
    """Those that can be reached from the other nodes."""
    clock: ClockReading | None


@dataclass(frozen=True, slots=True)
class Topology:
    """All servers. A cluster has ``shards`` in the place of replicas and sentinels."""

    service: str | None
    primary: str
    primary_clock: ClockReading | None
    is_known: bool
    """The primary shows its replicas."""
    keeps_data: bool
    """A restart of the primary does not lose its data."""
    replicas: list[Replica] = field(default_factory=list["Replica"])
    sentinels: list[Sentinel] = field(default_factory=list["Sentinel"])
    shards: list[Shard] = field(default_factory=list["Shard"])


async def read_topology(transport: Transport, info: dict[str, str]) -> Topology:
    """Ask all servers that can be found; ``info`` is the primary's own."""
    connection = await transport.get_connection()
    is_cluster = info.get("cluster_enabled") == "1"
    replicas = [
        dict(_pairs(value)) for key, value in info.items() if key.startswith("slave") and "ip=" in value
    ]
    clock = _ClockComparison()
    return Topology(
        service=None if transport.server is None else transport.server.service,
        primary=getattr(connection, "name", ""),
        primary_clock=clock.read(await connection.call("TIME")),
        is_known="role" in info,
        keeps_data=info.get("aof_enabled") == "1",
        replicas=[] if is_cluster else [await _read_replica(transport, each, info) for each in replicas],
        sentinels=[await _read_sentinel(transport, each) for each in transport.sentinels],
        shards=await _read_shards(transport) if is_cluster else [],
    )


async def _read_shards(transport: Transport) -> list[Shard]:
    connection = await transport.get_connection()
    reply = await connection.call("CLUSTER", "NODES")
    if isinstance(reply, Exception):
        return []
    nodes = [line.split() for line in reply.decode().splitlines()]
    primaries = {node[0]: node for node in nodes if "master" in node[2].split(",") and len(node) > _NO_SLOTS}
    followers = [node[3] for node in nodes if "slave" in node[2].split(",") and _is_reachable(node)]
    return [
        Shard(
            primary=_address_of(node),
            slots=sum(_count(slots) for slots in node[_NO_SLOTS:] if not slots.startswith("[")),
            is_reachable=_is_reachable(node),
            replicas=followers.count(node_id),
            clock=await _read_clock(transport, _address_of(node)),
        )
        for node_id, node in primaries.items()
    ]


def _is_reachable(node: list[str]) -> bool:
    flags, link = set(node[2].split(",")), node[7]
    return not flags & {"fail", "fail?", "noaddr"} and (link == "connected" or "myself" in flags)


def _address_of(node: list[str]) -> str:
    # HOST:PORT@BUS, and after a comma a host name.
    return node[1].partition("@")[0]


def _count(slots: str) -> int:
    first, _, last = slots.partition("-")
    return int(last or first) - int(first) + 1


async def _read_clock(transport: Transport, address: str) -> ClockReading | None:
    if transport.server is None:
        return None
    host, _, port = address.rpartition(":")
    server = replace(transport.server, host=host, port=int(port), service=None)
    clock = _ClockComparison()
    # `read` begins when the connection is there: a slow one would blur it.
    replies = await _ask(transport, server, [login(server), ("TIME",)])
    return clock.read(replies[-1])


async def _read_replica(transport: Transport, known: dict[str, str], info: dict[str, str]) -> Replica:
    host, port = known["ip"], int(known["port"])
    return Replica(
        address=str(Endpoint(host, port)),
        state=known.get("state", "unknown"),
        bytes_behind=max(0, int(info.get("master_repl_offset", 0)) - int(known.get("offset", 0))),
        clock=await _read_clock(transport, f"{host}:{port}"),
    )


async def _read_sentinel(transport: Transport, sentinel: Endpoint) -> Sentinel:
    service = (transport.server and transport.server.service) or ""
    commands: list[tuple[Word, ...]] = [("SENTINEL", "MASTER", service), ("SENTINEL", "CKQUORUM", service)]
    logged_in, details, has_quorum = await _ask(transport, sentinel, [login(sentinel), *commands])
    for reply in (logged_in, details):
        if isinstance(reply, Exception):
            # Its text may repeat the login.
            return Sentinel(
                str(sentinel), failure="no answer" if isinstance(reply, StoreError) else "refuses"
            )
    (known,) = maps_in([details])
    return Sentinel(
        str(sentinel),
        primary=str(Endpoint(known["ip"], int(known["port"]))),
        quorum=int(known["quorum"]),
        others=int(known["num-other-sentinels"]),
        down_after=int(known["down-after-milliseconds"]) / 1000,
        failover_timeout=int(known["failover-timeout"]) / 1000,
        has_quorum=not isinstance(has_quorum, Exception),
    )


async def _ask(transport: Transport, server: Endpoint, commands: Sequence[tuple[Word, ...]]) -> Sequence[Any]:
    """The replies; the failure for each of them if there are none."""
    try:
        return await transport.ask_other(server, commands)
    except StoreError as error:
        return [error] * len(commands)


class _ClockComparison:
    """Compares the time in a reply with ours; made just before the request is sent."""

    def __init__(self) -> None:
        self._sent_at = time.time()

    def read(self, reply: Any) -> ClockReading | None:
        received_at = time.time()
        if isinstance(reply, Exception):
            return None
        seconds, microseconds = (int(part) for part in cast("list[bytes]", reply))
        ahead = seconds + microseconds / 1e6 - (self._sent_at + received_at) / 2
        # At which point of the round trip the clock was read is unknown.
        return ClockReading(ahead, (received_at - self._sent_at) / 2)


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (part.partition("=") for part in text.split(","))]
