"""The hash slots of a cluster: which slot keeps a lock or a key."""

from __future__ import annotations

from binascii import crc_hqx
from typing import NamedTuple

from leasehold.valkey.keys import escape

SLOTS = 16384


def slot_of(name: str) -> int:
    """The slot of all keys of a lock, whose hash tag is its name."""
    return crc_hqx(escape(name).encode(), 0) % SLOTS


def slot_of_key(key: bytes) -> int:
    """The slot of any key."""
    start = key.find(b"{") + 1
    end = key.find(b"}", start) if start else -1
    return crc_hqx(key[start:end] if end > start else key, 0) % SLOTS


class OwnSlots(NamedTuple):
    """The slots of a node as it sees them itself, and the addresses to which it is moving some of them."""

    kept: frozenset[int]
    moving: dict[int, str]


def own_slots(nodes: str) -> OwnSlots:
    """The slots of the node that replied to CLUSTER NODES: what the others know of them may be old."""
    addresses: dict[str, str] = {}
    mine: list[str] = []
    for line in nodes.splitlines():
        node_id, address, flags, _, _, _, _, _, *slots = line.split()
        addresses[node_id] = address.partition("@")[0]
        if "myself" in flags:
            mine = slots
    kept: set[int] = set()
    moving: dict[int, str] = {}
    for text in mine:
        if text.startswith("["):
            slot, is_moving, node_id = text.strip("[]").partition("->-")
            if is_moving:
                moving[int(slot)] = addresses[node_id]
        else:
            first, _, last = text.partition("-")
            kept.update(range(int(first), int(last or first) + 1))
    return OwnSlots(frozenset(kept), moving)
