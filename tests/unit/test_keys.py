"""Names become keys: any text, safely, and two names never meet."""

from __future__ import annotations

import re

import hiredis
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from leasehold.errors import InvalidRequest
from leasehold.valkey import scripts
from leasehold.valkey.commands import Command, ScriptCommand
from leasehold.valkey.keys import check_namespace, escape, key_of, name_of, unescape
from leasehold.valkey.once_store import ValkeyOnceStore
from leasehold.valkey.store import ValkeyStore

# Names as `check_name` lets them through, with what is special to keys and terminals drawn often.
names = st.text(
    st.one_of(
        st.sampled_from("%{}:0123456789ABCDEFabcdef\n\r\t\x01\x1f\x7f\x80\x9f é😀"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    ),
    min_size=1,
    max_size=40,
)


@given(names)
@example("%")
@example("%25")
@example("%7B")
@example("{}")
def test_a_name_can_be_read_back_from_its_key(name):
    assert unescape(escape(name)) == name


@given(names)
def test_a_name_can_be_read_back_from_the_whole_key(name):
    for namespace in ("lock", "a:b", "x" * 64):
        assert name_of(namespace, key_of(namespace, name)) == name


@given(names, names)
@example("{", "%7B")
@example("%", "%25")
@example("%7B", "%257B")
@example("a\n", "a%0A")
@example("\x85", "%85")
def test_two_names_never_meet(one, other):
    assert (escape(one) == escape(other)) == (one == other)


@given(names)
def test_an_escaped_name_has_no_braces_and_no_control_characters(name):
    assert re.search(r"[{}\x00-\x1f\x7f-\x9f]", escape(name)) is None


@pytest.mark.parametrize("name", ["deal:42", "a b", "files/a.txt", "é", "😀", "/", "a}b".replace("}", "]")])
def test_ordinary_names_stay_readable(name):
    assert escape(name) == name


def test_a_key_shows_its_namespace_and_its_name():
    assert key_of("lock", "deal:42") == b"lock:{deal:42}"
    assert key_of("doc_lock", "a{b}%") == b"doc_lock:{a%7Bb%7D%25}"


STORE = ValkeyStore(None, namespace="lock", live=3)
# All but the one that takes as many locks as there are; its command is put together when it is needed.
OF_ONE_LOCK = [script for script in scripts.ALL if "…" not in script.keys]
COMMANDS = [command for command in vars(STORE).values() if isinstance(command, Command)]
RESULTS = ValkeyOnceStore(None, namespace="lock", live=3)
OF_RESULTS = [
    command
    for owner in (RESULTS, RESULTS.leases)
    for command in vars(owner).values()
    if isinstance(command, Command)
]


def keys_of(name):
    """Every key that any command touches for a lock."""
    tag = b"lock:{" + escape(name).encode() + b"}"
    words = {word for command in COMMANDS for word in command.words(name, ())}
    return {word for word in words if isinstance(word, bytes) and word.startswith(tag)}


def test_the_store_has_verbs_for_every_script():
    known = {
        command.words("a", ())[1] for command in COMMANDS + OF_RESULTS if isinstance(command, ScriptCommand)
    }
    assert known == {script.sha for script in OF_ONE_LOCK}
    assert keys_of("a") == {
        b"lock:{a}",
        *(b"lock:{a}:" + key for key in (b"fence", b"queue", b"readers", b"people", b"taken", b"released")),
    }


def test_a_result_and_the_lease_of_its_run_stand_side_by_side():
    keys = {
        word
        for command in OF_RESULTS
        for word in command.words("payout:42", ())
        if b"idempotency" in str(word).encode()
    }
    assert b"idempotency:{payout:42}" in keys
    assert b"idempotency:{payout:42}:lock" in keys
    assert len({key_slot(key) for key in keys}) == 1


@given(names)
def test_all_keys_of_a_lock_live_in_one_slot_of_a_cluster(name):
    assert len({key_slot(key) for key in keys_of(name)}) == 1


@given(names, names)
@example("a", "a}:fence")
@example("a", "a:fence")
@example("a", "{a}")
@example("lock:{a}", "a")
def test_the_keys_of_two_locks_never_meet(one, other):
    assert one == other or not (keys_of(one) & keys_of(other))


@given(names, names)
def test_the_keys_of_two_namespaces_never_meet(one, other):
    for mine, theirs in (("lock", "doc_lock"), ("lock", "lock:lock"), ("a", "a:")):
        assert key_of(mine, one) != key_of(theirs, other)


@pytest.mark.parametrize("namespace", ["lock", "doc_lock", "file", "a.b", "a:b", "A-1", "x" * 64])
def test_a_namespace_is_letters_digits_and_a_few_signs(namespace):
    assert check_namespace(namespace) == namespace


@pytest.mark.parametrize("namespace", ["", "a b", "{", "a}", "a\n", "é", "*", "x" * 65])
def test_a_namespace_that_would_break_a_key_is_refused(namespace):
    with pytest.raises(InvalidRequest, match="a namespace is 1 to 64 letters"):
        check_namespace(namespace)


READY = {script: ScriptCommand("lock", script) for script in OF_ONE_LOCK}


@settings(max_examples=40, deadline=None)
@given(names, st.text(max_size=20), st.lists(st.integers(0, 2**53), min_size=4, max_size=4))
def test_a_packed_command_is_the_command_in_words(name, first, others):
    """Parts of a command are kept ready; put together they must be what a driver would send."""
    for script, by_sha in READY.items():
        arguments = (first, *others)[: len(script.arguments)]
        assert len(arguments) == len(script.arguments)
        for command in (by_sha, by_sha.with_source):
            expected = hiredis.pack_command(command.words(name, arguments))
            assert command.pack(name, arguments) == expected
            assert command.pack(name, arguments) == expected  # now from what was kept


def test_what_is_kept_ready_for_names_does_not_grow_without_limit():
    command = ScriptCommand("lock", scripts.INSPECT)
    for number in range(40_000):
        command.pack(f"lock-{number}", ())
    assert len(command._heads) < 20_000


def test_what_is_kept_ready_for_arguments_does_not_grow_without_limit():
    command = ScriptCommand("lock", scripts.RENEW)
    for number in range(2_000):
        command.pack("a", ("token", number, 30_000))
    assert len(command._tails) < 1_000
