"""The map of a cluster: which primary keeps which slots, as the nodes report it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.errors import StoreError, StoreRefused, StoreUnavailable
from leasehold.valkey.transport import error_mapping
from leasehold.valkey.transport.cluster.slots import SLOTS
from leasehold.valkey.transport.handshake import parse_info
from leasehold.valkey.transport.server_clock import ServerClock
from leasehold.valkey.transport.server_list import PART_OF_TIMEOUT, ServerList, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Reply, Word

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """Some nodes of a cluster, how to log in to each, and where to find those whose own address is not reachable."""

    seeds: tuple[Endpoint, ...]
    address_map: Mapping[Address, Address] = field(default_factory=dict[Address, Address], hash=False)

    def __str__(self) -> str:
        return ",".join(str(each) for each in self.seeds)

    def node_at(self, host: str, port: int) -> Endpoint:
        """The node that the cluster announces at this address."""
        host, port = self.address_map.get((host, port), (host, port))
        return replace(self.seeds[0], host=host, port=port)


class SlotRange(NamedTuple):
    """Slots, the first and the last included, and the primary that keeps them."""

    first: int
    last: int
    primary: Endpoint


class SlotMapReader:
    """Reads the map from one node of the cluster after another, until one replies that is part of a working cluster."""

    def __init__(self, nodes: ClusterNodes, timeout: float, clock: Callable[[], float]) -> None:
        self._nodes = nodes
        self._timeout = timeout * PART_OF_TIMEOUT
        self._known = ServerList(nodes.seeds)
        self.server_clock = ServerClock(clock)
        """The clock of the node that replied last."""

    def read(self) -> list[SlotRange]:
        """The map; blocks."""
        return self._known.ask(self._ask, silence="no node of the cluster replies")

    def find(self, address: str) -> Endpoint:
        """The node at the address in a redirection. It is asked first next time: it knows of the change."""
        host, _, port = address.rpartition(":")
        # Without a host it is that of the node which replied.
        node = self._nodes.node_at(host or self._known.first.host, int(port))
        self._known.prefer(node)
        return node

    def _ask(self, node: Endpoint) -> list[SlotRange]:
        connection = connect(node, self._timeout)
        commands: list[tuple[Word, ...]] = [("CLUSTER", "INFO"), ("CLUSTER", "SLOTS"), ("TIME",)]
        if node.password is not None:
            commands.insert(0, ("AUTH", node.username or "default", node.password))
        try:
            replies = connection.call_many(commands)
        finally:
            connection.close()
        for reply in replies:
            if isinstance(reply, Exception):
                raise _refusal(node, reply)
        info, slots, (seconds, microseconds) = replies[-3:]
        self.server_clock.read(int(seconds) * 1000 + int(microseconds) / 1000)
        check_state(node, info)
        ranges: list[SlotRange] = []
        replicas: list[Endpoint] = []
        for first, last, primary, *others in slots:
            ranges.append(SlotRange(first, last, self._announced(primary, node)))
            replicas += [self._announced(each, node) for each in others]
        # Without those that have left, but with the names in the URL, behind which there may be other nodes later.
        self._known.replace(node, *(each.primary for each in ranges), *replicas, *self._nodes.seeds)
        return ranges

    def _announced(self, entry: list[Any], asked: Endpoint) -> Endpoint:
        host, port = entry[:2]
        # A node that does not know its own address, or announces none, is where it was asked.
        return self._nodes.node_at(host.decode() if host else asked.host, port)


def check_state(node: object, info: Reply, *, is_complete: bool = False) -> None:
    """Raise `StoreUnavailable` if this node, by its reply to CLUSTER INFO, cannot serve its slots.

    Then its map is not to be trusted either: it may be cut off from a cluster that goes on without it. With ``is_complete``
    every slot must be served, also in a cluster that works without that.
    """
    if isinstance(info, StoreError):
        raise info
    if isinstance(info, Exception):
        raise _refusal(node, info)
    facts = parse_info(info)
    is_down, served = facts.get("cluster_state") != "ok", facts.get("cluster_slots_ok", "?")
    if is_down or (is_complete and served != str(SLOTS)):
        state = "down" if is_down else "incomplete"
        raise StoreUnavailable(
            f"{node} says that the cluster is {state}: {served} of {SLOTS} slots are served"
        )


def _refusal(node: object, error: Exception) -> StoreError:
    if isinstance(error, StoreError):
        return error
    if "cluster support disabled" in str(error):
        refusal = StoreRefused(
            f"{node} is no node of a cluster: a store URL for a single server begins with redis:// or rediss://"
        )
        refusal.__cause__ = error
        return refusal
    return error_mapping.from_reply(str(error), error)
