"""How the store decodes replies. The transport is a port: here it returns prepared replies."""

from __future__ import annotations

import math

import hiredis
import pytest
from tests.unit.virtual_world import asking

from leasehold.core.backoff import Backoff
from leasehold.core.engine import Engine
from leasehold.core.leases.lease import LeaseState
from leasehold.core.replies import (
    DONE,
    Busy,
    Ended,
    Granted,
    LockWaiters,
    NotAfter,
    QueueState,
    Refusal,
    Renewal,
    Taken,
)
from leasehold.core.sync_runner import run_sync
from leasehold.errors import LeaseLost, StoreRefused, StoreUnavailable
from leasehold.runtime.randomness import SystemRandom
from leasehold.runtime.thread_runtime import ThreadClock, ThreadConcurrency
from leasehold.valkey import scripts
from leasehold.valkey.store import ValkeyStore
from leasehold.valkey.transport.server_clock import ServerClock

TOKEN = "f" * 32
NOW = 5_000.0
NOSCRIPT = hiredis.ReplyError("NOSCRIPT No matching script. Please use EVAL.")


WRAPPED = "ERR Error running script (call to f_d8f2): @user_script:1: "

SCRIPTS = {script.sha: script.name for script in scripts.ALL}


class ScriptedTransport:
    """Implements Transport and Connection; never suspends. Records commands as (name, words after the keys)."""

    keeps_order = True
    min_replicas = 0
    finds_primary = False
    redirect = None
    channel = "c" * 16

    def listen(self, handle, on_gap):
        self.handle = handle

    def __init__(self, *replies, floor=1_000, deletes_if_equal=False, may_ask_twice=False):
        self.replies = list(replies)
        self.floor = floor
        self.deletes_if_equal = deletes_if_equal
        self.may_ask_twice = may_ask_twice
        self.times_reset = 0
        self.server_clock = ServerClock(lambda: NOW)
        self.server_clock.read(1_700_000_000_000)
        self.sent = []

    @property
    def connection(self):
        return self

    async def get_connection(self, name=None):
        return self

    def is_one_step(self, names):
        return True

    def now_ms(self):
        return 1_700_000_000_000

    def reset(self):
        self.times_reset += 1

    async def run(self, command, name, arguments):
        words = command.words(name, arguments)
        self.sent.append((SCRIPTS.get(words[1]) or words[0].decode(), *arguments))
        reply = self.replies.pop(0)
        if isinstance(reply, StoreUnavailable):
            raise reply
        return reply

    async def run_many(self, calls):
        return [await self.run(call.command, call.name, call.arguments) for call in calls]


def make_store(*replies, **options):
    transport = ScriptedTransport(*replies, **options)
    return ValkeyStore(transport, namespace="lock", live=3), transport


def acquire(store, *, ttl=30.0, floor=0, mode="exclusive", wait=5.0):
    return run_sync(store.acquire("a", TOKEN, 12, ttl, floor, '"me"', mode, wait))


def take(store, expect_fence):
    not_after = NotAfter(NOW + 0.5)
    return run_sync(store.take("a", TOKEN, 12, 30, 0, '"me"', "exclusive", expect_fence, not_after))


def test_a_bare_number_is_a_fresh_grant():
    store, transport = make_store(77)
    fence, remaining, _receipt = acquire(store)
    assert (fence, remaining) == (77, 30.0)
    record = f'2x{TOKEN}{transport.channel}12 0 1700000000000 "me"'
    assert transport.sent == [("acquire", record, 30_000, 1_000, 5_000, 3_000)]


def test_a_grant_of_before_tells_what_is_left():
    store, _ = make_store([77, 1_234, b""])
    assert acquire(store)[:2] == (77, 1.234)


def test_busy_has_the_holder_and_the_time_left():
    store, _ = make_store([0, 1_234, b'1700000000000 {"user":"alice"}', b"s", 1_700_000_001_500, 4, 3])
    assert acquire(store) == Busy(
        {"user": "alice"}, 1.234, 1_700_000_000.0, "shared", waiters=4, position=3, asked_at=1_700_000_001.5
    )


def test_without_a_wait_there_is_no_place_in_the_queue():
    store, transport = make_store([0, 1_234, b'1700000000000 "alice"', b"x", 1_700_000_001_500, 0, 0])
    assert acquire(store, wait=0).position is None
    assert transport.sent[0][-2:] == (0, 3_000)


def test_waiting_without_limit_is_a_very_long_time_to_the_store():
    store, transport = make_store([0, 1_234, b'1700000000000 "alice"', b"x", 1_700_000_001_500, 1, 1])
    acquire(store, wait=None)
    assert transport.sent[0][-2] == 10**12


def test_a_poll_returns_places_grants_and_tokens_that_are_gone():
    store, transport = make_store([1_700_000_001_500, 1_234, 2, [77, 1_000], 0], hiredis.ReplyError("OOM"))
    look, refused = run_sync(
        store.look([LockWaiters("a", ["1" * 32, "2" * 32, "3" * 32]), LockWaiters("b", ["4" * 32])])
    )
    assert look == QueueState(1_700_000_001.5, 1.234, [2, (77, 1.0, None), None])
    assert isinstance(refused, StoreRefused)
    assert transport.sent[0] == ("look", "1" * 32 + "2" * 32 + "3" * 32, transport.channel, 3_000)


def test_with_min_replicas_a_grant_that_another_client_has_made_is_one_to_ask_for():
    store, transport = make_store([1_700_000_001_500, 1_234, 2, [77, 1_000], 0])
    transport.min_replicas = 1
    received = []
    store.listen(received.append, list)
    transport.handle(b"granted 12 77 1700000001500 2000")
    transport.handle(b"taken 12")
    assert received == [Granted(12, 77, 1_700_000_001.5, 0.0), Taken(12)]
    (look,) = run_sync(store.look([LockWaiters("a", ["1" * 32, "2" * 32, "3" * 32])]))
    assert look.places == [2, (77, 0.0, None), None]


def test_notifications_name_tickets_and_unknown_ones_are_ignored():
    store, transport = make_store()
    received = []
    store.listen(received.append, list)
    transport.handle(b"granted 12 77 1700000001500 2000")
    transport.handle(b"taken 12")
    transport.handle(b"something else 12")
    transport.handle(b"")
    assert received == [Granted(12, 77, 1_700_000_001.5, 2.0), Taken(12)]


def test_a_holder_that_has_gone_leaves_nothing_to_wait_for():
    store, _ = make_store([0, -2, b'1700000000000 "alice"', b"x", 1_700_000_001_500, 0, 0])
    assert acquire(store).remaining == 0.0


@pytest.mark.parametrize(("ttl", "ttl_ms"), [(0.01, 10), (0.0101, 11), (1.0001, 1_001), (86_400, 86_400_000)])
def test_milliseconds_are_rounded_up_so_that_the_store_never_ends_a_lease_before_its_holder(ttl, ttl_ms):
    store, transport = make_store(1, 1)
    acquire(store, ttl=ttl)
    run_sync(store.renew([Renewal("a", TOKEN, 1, ttl)]))
    assert transport.sent[0][2] == ttl_ms
    assert transport.sent[1][-1] == ttl_ms


@pytest.mark.parametrize(
    ("own", "asked", "sent"), [(1_000, 0, 1_000), (1_000, 5_000, 5_000), (None, 7, "@7")]
)
def test_the_floor_is_the_larger_of_the_servers_and_the_callers(own, asked, sent):
    store, transport = make_store(9_000, floor=own)
    acquire(store, floor=asked)
    assert transport.sent[0][3] == sent


def test_a_script_missing_on_the_server_is_sent_in_full():
    store, transport = make_store(NOSCRIPT, 77)
    assert acquire(store)[0] == 77
    assert [words[0] for words in transport.sent] == ["acquire", "EVAL"]
    assert transport.sent[1][1:] == transport.sent[0][1:]


def test_in_a_batch_only_missing_scripts_are_sent_again():
    store, transport = make_store(1, NOSCRIPT, -1, 0, hiredis.ReplyError("OOM"), 1)
    renewals = [Renewal(name, TOKEN, 1, 30) for name in "abcde"]
    answers = run_sync(store.renew(renewals))
    assert answers[:4] == [DONE, DONE, Ended.TAKEN, Ended.EXPIRED]
    assert isinstance(answers[4], StoreRefused)
    assert len(transport.sent) == 6


def test_a_batch_without_an_answer_is_unknown_for_every_lease():
    store, _ = make_store(StoreUnavailable("cut"))
    answers = run_sync(store.renew([Renewal(name, TOKEN, 1, 30) for name in "ab"]))
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 2


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreRefused, "memory"),
        ("READONLY You can't write against a read only replica.", StoreRefused, "replica"),
        ("WRONGTYPE Operation against a key holding the wrong kind", StoreRefused, "namespace"),
        ("NOPERM this user has no permissions", StoreRefused, "may not run"),
        ("ERR user_script:9: LEASEHOLD-VERSION 7 script: abc", StoreRefused, "another version"),
        ("ERR something new", StoreRefused, "something new"),
        ("LOADING Redis is loading the dataset in memory", StoreUnavailable, "LOADING"),
        ("BUSY Redis is busy running a script.", StoreUnavailable, "BUSY"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", StoreUnavailable, "TRYAGAIN"),
        ("MASTERDOWN Link with MASTER is down", StoreUnavailable, "MASTERDOWN"),
        ("ERR ACL failure in script: User u has no permissions to run 'set'", StoreRefused, "may not run"),
        # As Redis 6.2 reports the error of a command in a script.
        (f"{WRAPPED}@user_script: 1: -READONLY You can't write", StoreRefused, "is a read-only replica"),
        (f"{WRAPPED}@user_script: 1: -OOM command not allowed", StoreRefused, "out of memory"),
        (f"{WRAPPED}@user_script: 1: -MISCONF Errors writing", StoreRefused, "cannot save to disk"),
        (f"{WRAPPED}@user_script: 1: -NOREPLICAS Not enough", StoreRefused, "too few replicas"),
        (f"{WRAPPED}@user_script: 1: -MASTERDOWN Link with", StoreUnavailable, "MASTERDOWN"),
        (f"{WRAPPED}@user_script: 1: -LOADING Redis is loading", StoreUnavailable, "LOADING"),
        (f"{WRAPPED}WRONGTYPE Operation against a key", StoreRefused, "holds something else"),
        (f"{WRAPPED}@user_script: 1: The user executing the script can't run", StoreRefused, "may not run"),
        ("@user_script: 1: -READONLY You can't write", StoreRefused, "is a read-only replica"),
        # What was sent is no code.
        (
            "ERR unknown command 'x', with args beginning with: -READONLY ",
            StoreRefused,
            "^the server replied",
        ),
    ],
)
def test_an_error_reply_becomes_the_right_error_with_its_cause(reply, error, says):
    original = hiredis.ReplyError(reply)
    store, _ = make_store(original)
    with pytest.raises(error, match=says) as raised:
        acquire(store)
    assert raised.value.__cause__ is original


@pytest.mark.parametrize("wrapped_in", ["", f"{WRAPPED}@user_script: 1: -"])
def test_a_server_that_is_no_longer_the_primary_ends_the_connection(wrapped_in):
    """What it grants once it is primary again may be older than the floor of this connection."""
    store, transport = make_store(
        hiredis.ReplyError(f"{wrapped_in}READONLY You can't write against a read only replica.")
    )
    with pytest.raises(StoreRefused):
        acquire(store)
    assert transport.times_reset == 1


def test_a_take_that_was_not_expected_tells_by_whom_the_lock_is_held():
    store, transport = make_store([0, 55, b'1700000000000 "alice"'], [0, 0, b""])
    assert take(store, 54) == Refusal(55, "alice")
    assert take(store, 54) == Refusal(0, None)
    assert transport.sent[0][-2:] == (54, 1_700_000_000_495)


def test_a_take_without_an_expected_fence_sends_none():
    store, transport = make_store([56, 30_000, b""])
    assert take(store, None)[:2] == (56, 30.0)
    assert transport.sent[0][-2] == ""


def test_a_release_uses_the_servers_own_compare_and_delete():
    store, transport = make_store(77, 1, deletes_if_equal=True)
    receipt = acquire(store)[2]
    assert run_sync(store.release("a", TOKEN, 77, receipt)) == DONE
    assert transport.sent[1] == ("DELIFEQ", transport.sent[0][1])


def test_without_a_receipt_the_script_compares():
    store, transport = make_store(1, deletes_if_equal=True)
    assert run_sync(store.release("a", TOKEN, 77, None)) == DONE
    assert transport.sent == [("release", TOKEN)]


@pytest.mark.parametrize("reply", [0, -1, hiredis.ReplyError("ERR unknown command 'DELIFEQ'")], ids=repr)
def test_a_record_that_is_not_word_for_word_ours_is_left_to_the_script(reply):
    """Another version may have written it anew with the same token."""
    store, transport = make_store(reply, 1, deletes_if_equal=True)
    assert run_sync(store.release("a", TOKEN, 77, "receipt")) == DONE
    assert [words[0] for words in transport.sent] == ["DELIFEQ", "release"]


@pytest.mark.parametrize(
    ("taken", "ended"), [(None, Ended.EXPIRED), (b"77", Ended.EXPIRED), (b"78", Ended.TAKEN)]
)
def test_a_release_that_finds_the_lease_gone_says_why(taken, ended):
    store, _ = make_store(0, taken)
    assert run_sync(store.release("a", TOKEN, 77, None)) == ended


def test_a_release_that_finds_the_lease_gone_is_never_reported_as_done():
    """It was gone when we asked; that the question why went unanswered does not make it released."""
    replies = [77, 0, StoreUnavailable("cut"), 0, b"78", 0, b"78"]
    store, _ = make_store(*replies)
    engine = Engine(
        store,
        ThreadClock(),
        SystemRandom(),
        ThreadConcurrency(),
        make_lease=LeaseState,
        holder=lambda: "me",
        timeout=1.0,
        backoff=Backoff(first=0.001, cap=0.002),
    )
    lease = run_sync(engine.acquire("a", **asking()))
    with pytest.raises(LeaseLost):
        run_sync(engine.release(lease))


# Redirections of a cluster

MOVED = hiredis.ReplyError("MOVED 5 127.0.0.1:7001")
ASK = hiredis.ReplyError("ASK 5 127.0.0.1:7001")
TRYAGAIN = hiredis.ReplyError("TRYAGAIN Multiple keys request during rehashing of slot")


class RedirectingTransport(ScriptedTransport):
    """Whose clock is another one after each redirection, as that of another node, and that gives up after ``patience``."""

    def __init__(self, *replies, patience=100, **options):
        super().__init__(*replies, **options)
        self.redirected = []
        self.patience = patience

    async def redirect(self, calls, replies, elapsed):
        self.redirected.append([call.name for call in calls])
        if len(self.redirected) > self.patience or elapsed == math.inf:
            raise StoreRefused("slot 5 is being moved")
        self.server_clock = ServerClock(lambda: NOW)
        self.server_clock.read(1_600_000_000_000)
        return self


def test_a_redirected_call_is_repeated_until_it_is_done():
    transport = RedirectingTransport(MOVED, TRYAGAIN, ASK, 77)
    store = ValkeyStore(transport, namespace="lock", live=3)
    assert acquire(store)[0] == 77
    assert transport.redirected == [["a"]] * 3
    assert len(set(transport.sent)) == 1


def test_a_slot_that_still_moves_in_the_end_is_refused():
    store = ValkeyStore(RedirectingTransport(*[TRYAGAIN] * 9, patience=5), namespace="lock", live=3)
    with pytest.raises(StoreRefused, match="slot 5 is being moved"):
        acquire(store)


def test_a_redirected_request_with_a_not_after_is_made_anew_for_the_clock_of_the_other_node():
    transport = RedirectingTransport(MOVED, NOSCRIPT, [8, 30_000, b""])
    store = ValkeyStore(transport, namespace="lock", live=3)
    assert take(store, None)[0] == 8
    first, second, third = (sent[-1] for sent in transport.sent)
    assert (first, second, third) == (1_700_000_000_495, 1_600_000_000_495, 1_600_000_000_495)
    assert [sent[0] for sent in transport.sent] == ["take", "take", "EVAL"]


def test_a_request_with_a_not_after_that_was_only_redirected_has_not_been_sent():
    store = ValkeyStore(RedirectingTransport(*[MOVED] * 9, patience=5), namespace="lock", live=3)
    not_after = NotAfter(NOW + 0.5)
    with pytest.raises(StoreRefused, match="slot 5 is being moved"):
        run_sync(store.take("a", TOKEN, 12, 30, 0, '"me"', "exclusive", None, not_after))
    assert not not_after.is_sent


def test_of_a_batch_only_redirected_calls_are_repeated_and_not_for_long():
    replies = [1, MOVED, 1, TRYAGAIN, NOSCRIPT, 1, 1, TRYAGAIN, TRYAGAIN]
    transport = RedirectingTransport(*replies)
    store = ValkeyStore(transport, namespace="lock", live=3)
    renewals = [Renewal(name, TOKEN, 7, 30) for name in "abcde"]
    done = run_sync(store.renew(renewals))
    assert done[:3] == [DONE] * 3
    assert isinstance(done[3], StoreRefused)
    assert done[4] is DONE
    assert transport.redirected == [["b", "d"], ["d"], ["d"]]


def test_a_cluster_that_is_down_is_unknown_and_its_map_is_read_again():
    store, transport = make_store(hiredis.ReplyError("CLUSTERDOWN The cluster is down"))
    with pytest.raises(StoreUnavailable, match="CLUSTERDOWN"):
        acquire(store)
    assert transport.times_reset == 1


def test_without_a_cluster_a_redirection_names_the_url_to_use():
    store, _ = make_store(MOVED)
    with pytest.raises(StoreRefused, match=r"redis\+cluster://"):
        acquire(store)


def test_a_script_that_several_nodes_have_forgotten_is_sent_to_each_in_two_rounds():
    transport = RedirectingTransport(NOSCRIPT, NOSCRIPT, NOSCRIPT, 1, NOSCRIPT, NOSCRIPT, 1, 1)
    store = ValkeyStore(transport, namespace="lock", live=3)
    assert run_sync(store.renew([Renewal(name, TOKEN, 7, 30) for name in "abc"])) == [DONE] * 3
    assert [sent[0] for sent in transport.sent] == ["renew"] * 3 + ["EVAL", "renew", "renew"] + ["EVAL"] * 2


def test_a_server_that_always_forgets_is_refused():
    store, transport = make_store(*[NOSCRIPT] * 9)
    with pytest.raises(StoreRefused, match="NOSCRIPT"):
        acquire(store)
    assert len(transport.sent) == 2
