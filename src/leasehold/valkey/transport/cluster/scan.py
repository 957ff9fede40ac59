"""SCAN over a whole cluster, complete also while slots are being moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from leasehold.errors import StoreUnavailable
from leasehold.valkey.transport import error_mapping
from leasehold.valkey.transport.cluster.slots import SLOTS, OwnSlots, own_slots, slot_of_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Reply, Transport, Word


@dataclass(frozen=True, slots=True)
class ScanCursor:
    """The state of a scan: the node that is being scanned, its own cursor, and the slots for which it is.

    ``left`` are the slots that have not been scanned. ``moving``: those for which a node is to be scanned because another
    one, which has been scanned, is moving them there key by key.
    """

    left: frozenset[int] = frozenset(range(SLOTS))
    moving: tuple[tuple[Endpoint, frozenset[int]], ...] = ()
    node: Endpoint | None = None
    cursor: Word = 0
    wanted: frozenset[int] = frozenset()
    is_target: bool = False


class _Nodes(Protocol):
    """The part of the cluster's transport that a scan uses."""

    @property
    def primaries(self) -> Sequence[Endpoint]: ...
    def owner_of(self, slot: int) -> Endpoint | None: ...
    def node_at(self, endpoint: Endpoint) -> Transport: ...
    def find(self, address: str) -> Endpoint: ...
    def reset(self) -> None: ...


async def scan(nodes: _Nodes, cursor: object, options: Sequence[Word]) -> Reply:
    """The next cursor (0 at the end) and some keys.

    A slot counts as scanned when the node that kept it from the beginning of its scan to the end has been scanned. One
    that has since been moved is scanned on its new node, so its keys may come twice.
    """
    at = cursor if isinstance(cursor, ScanCursor) else ScanCursor()
    if at.node is None or not (at.is_target or at.node in nodes.primaries):
        at = await _next_node(nodes, at)
    assert at.node is not None
    reply = await _call(nodes, at.node, "SCAN", at.cursor, *options)
    following, keys = reply
    found = [key for key in keys if slot_of_key(key) in at.wanted]
    if int(following):
        return [replace(at, cursor=following), found]
    at = await _end_node(nodes, at)
    return [at if at.left else 0, found]


async def _next_node(nodes: _Nodes, at: ScanCursor) -> ScanCursor:
    if at.moving:
        (target, slots), *others = at.moving
        return replace(at, moving=tuple(others), node=target, cursor=0, wanted=slots, is_target=True)
    slot = min(at.left)
    owner = nodes.owner_of(slot)
    wanted = frozenset[int]() if owner is None else at.left & (await _own_slots(nodes, owner)).kept
    if owner is None or slot not in wanted:
        nodes.reset()
        raise StoreUnavailable(f"no node of the cluster serves slot {slot} now")
    return replace(at, node=owner, cursor=0, wanted=wanted, is_target=False)


async def _end_node(nodes: _Nodes, at: ScanCursor) -> ScanCursor:
    assert at.node is not None
    ended = replace(at, node=None, cursor=0)
    if at.is_target:
        return replace(ended, left=at.left - at.wanted)
    kept, targets = await _own_slots(nodes, at.node)
    moving = {
        address: frozenset(slot for slot in at.wanted if targets.get(slot) == address)
        for address in {*targets.values()}
    }
    return replace(
        ended,
        left=at.left - (at.wanted & kept - targets.keys()),
        moving=tuple((nodes.find(address), slots) for address, slots in moving.items() if slots),
    )


async def _own_slots(nodes: _Nodes, endpoint: Endpoint) -> OwnSlots:
    reply = await _call(nodes, endpoint, "CLUSTER", "NODES")
    return own_slots(reply if isinstance(reply, str) else reply.decode())


async def _call(nodes: _Nodes, endpoint: Endpoint, *words: Word) -> Reply:
    reply = await (await nodes.node_at(endpoint).get_connection()).call(*words)
    if isinstance(reply, Exception):
        raise error_mapping.from_reply(str(reply), reply)
    return reply
