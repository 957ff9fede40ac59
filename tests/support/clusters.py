"""A cluster: three primaries, with a replica each if wanted; real processes on loopback."""

from __future__ import annotations

import socket
from binascii import crc_hqx
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import redis
from redis.cluster import ClusterNode

from tests.support.eventually import eventually
from tests.support.servers import ADMIN_PASSWORD, ADMIN_USER, Server, reserve_port

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SLOTS = 16384
_BUS = 10_000


def slot_of(name: str) -> int:
    """The slot of the lock."""
    return crc_hqx(name.encode(), 0) % SLOTS


class Node(Server):
    """One node. Its bus uses the port 10,000 above that for clients: Redis 6.2 cannot be given another one."""

    def __init__(self, flavour: str, *, node_timeout_ms: int, **options: Any) -> None:
        super().__init__(
            flavour,
            cluster_enabled=True,
            cluster_config_file="nodes.conf",
            cluster_node_timeout=node_timeout_ms,
            masteruser=ADMIN_USER,
            masterauth=ADMIN_PASSWORD,
            **options,
        )
        self._bus = self._reserve_both_ports()
        self.id = ""

    def start(self, *args: Any, **options: Any) -> Self:
        super().start(*args, **options)
        self.id = self.call("CLUSTER", "MYID").decode()
        return self

    def close(self) -> None:
        super().close()
        self._bus.close()

    def keys_in(self, slot: int) -> list[bytes]:
        return self.call("CLUSTER", "GETKEYSINSLOT", slot, 1000)

    def _reserve_both_ports(self) -> socket.socket:
        unsuitable: list[socket.socket] = []
        try:
            while True:
                bus = socket.socket()
                bus.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                with suppress(OSError, OverflowError):
                    bus.bind(("127.0.0.1", self.port + _BUS))
                    return bus
                bus.close()
                unsuitable.append(self._port)
                self._port = reserve_port()
        finally:
            for each in unsuitable:
                each.close()


class ClusterAdmin(redis.RedisCluster):
    """A client for the data of all nodes. What redis-py asks of one node only is asked of all primaries here."""

    def keys(self, *args: Any, **_: Any) -> list[bytes]:
        return [key for found in self._of_all(lambda node: node.keys(*args)) for key in found]

    def dbsize(self, **_: Any) -> int:
        return sum(self._of_all(lambda node: node.dbsize()))

    def config_resetstat(self, **_: Any) -> None:
        self._of_all(lambda node: node.config_resetstat())

    def pubsub_numsub(self, *channels: str, **_: Any) -> list[tuple[bytes, int]]:
        counts = self._of_all(lambda node: dict(node.pubsub_numsub(*channels)))
        return [(channel, sum(each[channel] for each in counts)) for channel in map(str.encode, channels)]

    def info(self, section: str, **_: Any) -> dict[str, Any]:
        """Only for the numbers of calls of each command."""
        assert section == "commandstats"
        calls = Counter[str]()
        for found in self._of_all(lambda node: node.info(section)):
            for command, stats in found.items():
                calls[command] += stats["calls"]
        return {command: {"calls": count} for command, count in calls.items()}

    def _of_all(self, ask: Callable[[redis.Redis], Any]) -> list[Any]:
        return [ask(self.get_redis_connection(node)) for node in self.get_primaries()]


class Cluster:
    """Primaries that share the slots evenly, in order, and ``replicas`` of each.

    ``node_timeout_ms`` is long, unless a test needs a fail-over: on a busy machine nodes take a slow one for a dead one.
    """

    def __init__(
        self,
        flavour: str = "valkey9",
        *,
        primaries: int = 3,
        replicas: int = 0,
        node_timeout_ms: int = 60_000,
        **options: Any,
    ) -> None:
        self.flavour = flavour
        self.primaries, self.replicas = (
            [Node(flavour, node_timeout_ms=node_timeout_ms, **options) for _ in range(count)]
            for count in (primaries, primaries * replicas)
        )

    @property
    def nodes(self) -> list[Node]:
        return [*self.primaries, *self.replicas]

    @property
    def url(self) -> str:
        return self.url_for(*self.nodes)

    def url_for(self, *nodes: Server) -> str:
        return f"redis+cluster://{','.join(f'127.0.0.1:{each.port}' for each in nodes)}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()

    def _start(self) -> None:
        for epoch, node in enumerate(self.nodes, 1):
            node.start()
            node.call("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        count = len(self.primaries)
        for index, node in enumerate(self.primaries):
            slots = range(SLOTS * index // count, SLOTS * (index + 1) // count)
            node.call("CLUSTER", "ADDSLOTS", *slots)
        first, *others = self.nodes
        for node in others:
            node.call("CLUSTER", "MEET", "127.0.0.1", first.port)
        eventually(lambda: all(self._knows_all(node) for node in self.nodes))
        for index, node in enumerate(self.replicas):
            node.call("CLUSTER", "REPLICATE", self.primaries[index % count].id)
        eventually(lambda: all(self._is_ok(node) and self._knows_all(node) for node in self.nodes))
        for node in self.replicas:
            eventually(lambda node=node: node.info("replication")["master_link_status"] == "up")

    def _knows_all(self, node: Node) -> bool:
        lines = node.call("CLUSTER", "NODES").decode().splitlines()
        # Without a link to another node, what is published here is not heard there.
        return len(lines) == len(self.nodes) and not any(
            "handshake" in line or "disconnected" in line for line in lines
        )

    def _is_ok(self, node: Node) -> bool:
        lines = node.call("CLUSTER", "INFO").decode().splitlines()
        return {"cluster_state:ok", f"cluster_slots_ok:{SLOTS}"} <= set(lines)

    def admin(self, **options: Any) -> ClusterAdmin:
        """A client with all rights for the data of all nodes. Close it (`with cluster.admin() as r`)."""
        return ClusterAdmin(
            startup_nodes=[ClusterNode("127.0.0.1", self.primaries[0].port)],
            username=ADMIN_USER,
            password=ADMIN_PASSWORD,
            **options,
        )

    # Slots

    def call_all(self, *command: str | float) -> list[Any]:
        """The replies of all primaries that run."""
        return [node.call(*command) for node in self.primaries if node.is_running]

    def owner(self, slot: int) -> Node:
        """The primary that keeps the slot, as it says itself."""
        return next(node for node in self.primaries if node.is_running and self._keeps(node, slot))

    def others(self, slot: int) -> list[Node]:
        """The other primaries."""
        owner = self.owner(slot)
        return [node for node in self.primaries if node is not owner]

    def names_on(self, node: Node, count: int, prefix: str = "lock") -> list[str]:
        """Names of locks that this node keeps, each in a slot of its own."""
        kept, names = self._slots_of(node), dict[int, str]()
        number = 0
        while len(names) < count:
            name = f"{prefix}-{number}"
            if slot_of(name) in kept:
                names.setdefault(slot_of(name), name)
            number += 1
        return list(names.values())

    def names_everywhere(self, prefix: str = "lock") -> list[str]:
        """One name for each primary, in their order."""
        return [self.names_on(node, 1, prefix)[0] for node in self.primaries]

    def move_live(self, slot: int, target: Node) -> None:
        """Move a slot at once (Valkey 9)."""
        source = self.owner(slot)
        source.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        eventually(lambda: self._keeps(target, slot))

    def end_moves(self) -> None:
        """Forget the moves that have begun and not ended."""
        for node in self.primaries:
            node.resume()
            for text in node.call("CLUSTER", "NODES").decode().split():
                if text.startswith("["):
                    node.call("CLUSTER", "SETSLOT", text[1:].split("-")[0], "STABLE")

    def begin_move(self, slot: int, target: Node) -> Node:
        """Begin to move a slot key by key. Return the node that has kept it."""
        source = self.owner(slot)
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        return source

    def move_keys(self, slot: int, source: Node, target: Node, keys: Sequence[bytes] | None = None) -> None:
        """Move these keys of the slot, or all that it has now."""
        for key in source.keys_in(slot) if keys is None else keys:
            source.call(
                "MIGRATE", "127.0.0.1", target.port, key, 0, 5000, "AUTH2", ADMIN_USER, ADMIN_PASSWORD
            )

    def end_move(self, slot: int, source: Node, target: Node) -> None:
        """Move the rest, and give the slot to the other node."""
        # A key may be written between the last look and the end: then the source refuses to give the slot away.
        eventually(lambda: self._has_ended_move(slot, source, target))
        for node in self.primaries:
            with suppress(redis.ResponseError):
                node.call("CLUSTER", "SETSLOT", slot, "NODE", target.id)

    def _has_ended_move(self, slot: int, source: Node, target: Node) -> bool:
        self.move_keys(slot, source, target)
        if source.keys_in(slot):
            return False
        target.call("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        try:
            source.call("CLUSTER", "SETSLOT", slot, "NODE", target.id)
        except redis.ResponseError:
            return False
        return True

    def _keeps(self, node: Node, slot: int) -> bool:
        return slot in self._slots_of(node)

    def _slots_of(self, node: Node) -> set[int]:
        (mine,) = (line for line in node.call("CLUSTER", "NODES").decode().splitlines() if "myself" in line)
        kept: set[int] = set()
        for text in mine.split()[8:]:
            if not text.startswith("["):
                first, _, last = text.partition("-")
                kept.update(range(int(first), int(last or first) + 1))
        return kept
