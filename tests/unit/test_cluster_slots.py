"""Slots of a cluster: from names and keys, and from what a node says of itself."""

from __future__ import annotations

import pytest

from leasehold.valkey.keys import key_of
from leasehold.valkey.transport.cluster.slots import own_slots, slot_of, slot_of_key


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        # From the servers' own documentation and tests, and from CLUSTER KEYSLOT.
        (b"123456789", 0x31C3),
        (b"foo", 12182),
        (b"bar", 5061),
        (b"hello", 866),
        (b"", 0),
        (b"{foo}bar", 12182),
        (b"foo{bar}", 5061),
        (b"{user1000}.following", 3443),
        (b"{user1000}.followers", 3443),
        (b"foo{}{bar}", 8363),
        (b"foo{{bar}}zap", 4015),
        (b"foo{bar}{zap}", 5061),
        (b"foo{bar", 15278),
    ],
)
def test_the_slot_of_a_key_is_that_of_its_hash_tag(key: bytes, slot: int) -> None:
    assert slot_of_key(key) == slot


@pytest.mark.parametrize("name", ["deal", "a b", "{a}", "%", "größe", "\x1b[0m", "a}b{c"])
@pytest.mark.parametrize("suffix", [b"", b":fence", b":queue"])
def test_all_keys_of_a_lock_are_in_the_slot_of_its_name(name: str, suffix: bytes) -> None:
    assert slot_of_key(key_of("my:locks", name) + suffix) == slot_of(name)


def test_a_node_says_which_slots_it_keeps_and_where_it_moves_some() -> None:
    slots = own_slots(
        "aaa 127.0.0.1:7001@17001,a.example.org master - 0 17 2 connected 6-16383\n"
        "bbb 10.0.0.2:7000@17000 myself,master - 0 0 1 connected 0-3 5 [3->-aaa] [7-<-aaa]\n"
        "ccc :0@0 slave,noaddr bbb 17 17 1 disconnected\n"
    )
    assert slots.kept == {0, 1, 2, 3, 5}
    assert slots.moving == {3: "127.0.0.1:7001"}
