"""A signal handler that raises at each moment of a call at which CPython can run one: nothing stays taken for ever."""

from __future__ import annotations

import gc
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually
from tests.support.interruption import Interrupted, each_moment, interrupt

from leasehold import AcquireTimeout, LeaseLost, blocking
from leasehold.files import FileSettings
from leasehold.files import blocking as files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.conftest import Count
    from tests.support.servers import Server

# Of leases that need not be alive for anything.
TTL = 1.0

# A connection that was lost to an interruption closes its socket when it is forgotten.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def locks(valkey: Server) -> Iterator[blocking.Client]:
    with blocking.connect(valkey.url, max_connections=2, timeout=20) as client:
        yield client
    gc.collect()  # the sockets that were lost, while their warning is expected


def in_another_thread(call: Callable[[], Any]) -> Any:
    """The result of ``call``; fails if it hangs."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:  # noqa: BLE001 - for the caller
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert results, "it hangs"
    return results[0]


class Probe:
    """Prepares a client for an interruption, and checks afterwards that it is whole."""

    def __init__(self, locks: blocking.Client) -> None:
        self.locks = locks
        self.kept = locks.acquire("kept", ttl=600, holder="the keeper")
        self.moments: list[str] = []
        self.warm = 0

    def prepare(self) -> None:
        """Bring the caches and the connection into the state of every later call."""
        self.warm += 1
        self.locks.acquire(f"warm {self.warm}", ttl=TTL, renew=True).release()

    def check(self, where: str) -> None:
        """Replies match requests, from this thread and from another, and all places are free."""
        self.moments.append(where)
        for ask in (lambda call: call(), in_another_thread):
            for _ in range(2):
                info = ask(lambda: self.locks.inspect("kept"))
                assert (info.holder, info.fence) == ("the keeper", self.kept.fence), where
        # For a moment the cleaner's thread has one.
        places = self.locks.store_access.transport._limit._places
        eventually(lambda: not places, message=f"a place is left behind at {where}")


def held_names(server: Server) -> list[str]:
    with server.admin(decode_responses=True) as admin:
        keys = set(admin.scan_iter("lock:*", count=10_000))
    return sorted(key for key in keys if not key.endswith(":fence") and "{kept}" not in key)


def is_watched(lease: Any) -> bool:
    """Whether the renewer has a timer for the lease."""
    queue = lease._engine.renewer._timer_queue
    timers = [*queue._inbox.copy(), *[(when, item) for when, _, item in queue._heap.copy()]]
    return lease.is_watched and (lease.check_at, lease) in timers


def test_an_acquire_leaves_neither_a_lease_nor_a_place_behind(valkey: Server, locks: blocking.Client) -> None:
    probe = Probe(locks)
    number = 0

    def acquire() -> Any:
        nonlocal number
        number += 1
        return locks.acquire(f"lock {number}", ttl=TTL, renew=True)

    for outcome in each_moment(acquire, probe.prepare):
        assert isinstance(outcome.result, Interrupted), outcome
        probe.check(outcome.where)
    assert len(probe.moments) > 50
    # Renewed without an owner, it would be there for ever.
    eventually(lambda: held_names(valkey) == [f"lock:{{lock {number}}}"], message="the others have ended")


def test_a_connection_that_is_being_made_leaves_nothing_behind(locks: blocking.Client, count: Count) -> None:
    probe = Probe(locks)

    def prepare() -> None:
        probe.prepare()
        locks.store_access.transport.reset()

    for error in (Interrupted, TimeoutError):
        for outcome in each_moment(
            lambda: locks.inspect("kept"), prepare, error, every=count(full=1, quick=7)
        ):
            assert type(outcome.result) is error, outcome
            probe.check(outcome.where)
    assert len(probe.moments) > count(full=100, quick=20)


def test_the_only_connection_is_free_for_another_thread(valkey: Server, count: Count) -> None:
    """The first to use it after the interruption: the same thread would find the place that it has left behind."""
    with blocking.connect(valkey.url, max_connections=1, timeout=20) as locks:
        lease = locks.acquire("lock", ttl=600)
        moments = 0
        for outcome in each_moment(
            lambda: locks.inspect("lock"), lambda: locks.inspect("lock"), every=count(full=1, quick=3)
        ):
            assert isinstance(outcome.result, Interrupted), outcome
            assert in_another_thread(lambda: locks.inspect("lock")).fence == lease.fence, outcome.where
            moments += 1
        assert moments > count(full=30, quick=10)
        lease.release()
    gc.collect()


def test_a_renewal_leaves_the_lease_renewed_and_its_turn_free(locks: blocking.Client) -> None:
    probe = Probe(locks)
    lease = locks.acquire("lock", ttl=600, renew=True)

    def renew() -> None:
        lease.renew()

    for outcome in each_moment(renew, probe.prepare):
        assert isinstance(outcome.result, Interrupted), outcome
        assert not lease.exchanges, outcome.where
        eventually(lambda: is_watched(lease), message=f"it is still renewed after {outcome.where}")
        assert in_another_thread(lease.renew) is None, outcome.where
        probe.check(outcome.where)
    assert len(probe.moments) > 30
    lease.release()


@pytest.mark.parametrize("renew", [False, True])
def test_a_release_leaves_the_lease_released_or_held_until_its_ttl_and_no_longer(
    valkey: Server, locks: blocking.Client, renew: bool
) -> None:
    probe = Probe(locks)
    number = 0
    lease: Any = None
    not_begun: list[Any] = []

    def prepare() -> None:
        nonlocal number, lease
        probe.prepare()
        number += 1
        lease = locks.acquire(f"lock {number}", ttl=TTL, renew=renew)

    def release() -> None:
        lease.release()

    for outcome in each_moment(release, prepare):
        assert isinstance(outcome.result, Interrupted), outcome
        assert not lease.exchanges, outcome.where
        if lease.ended is None:
            not_begun.append(outcome.where)
        assert in_another_thread(lease.release) is None or lease.ended is not None, outcome.where
        probe.check(outcome.where)
    assert len(probe.moments) > 40
    assert len(not_begun) < 12, not_begun
    eventually(lambda: not held_names(valkey), message="none is left in the store")


@pytest.mark.parametrize("several", [False, True])
def test_a_body_that_ends_at_whatever_moment_leaves_a_lock_that_ends(
    valkey: Server, locks: blocking.Client, several: bool
) -> None:
    probe = Probe(locks)
    number = 0

    def hold() -> None:
        nonlocal number
        number += 1
        names = [f"one {number}", f"two {number}"]
        with locks.lock_all(names, ttl=TTL) if several else locks.lock(names[0], ttl=TTL):
            pass

    for outcome in each_moment(hold, probe.prepare):
        assert isinstance(outcome.result, Interrupted), outcome
        probe.check(outcome.where)
    assert len(probe.moments) > 90
    eventually(lambda: not held_names(valkey), message="none is left in the store")


@pytest.mark.parametrize("several", [False, True])
def test_further_exceptions_in_the_clean_up_leave_no_renewed_lease(
    valkey: Server, locks: blocking.Client, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    """A handler that raises again and again: at the entry of each function that a `with` calls at its end."""

    def raise_in_main_thread(verb: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def interrupted(held: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                raise Interrupted
            return verb(held)

        return interrupted

    def hold() -> None:
        with locks.lock_all(["one", "two"], ttl=TTL) if several else locks.lock("one", ttl=TTL):
            assert held_names(valkey)

    for kind in (blocking.Lease, blocking.Leases):
        for verb in ("release", "abandon"):
            monkeypatch.setattr(kind, verb, raise_in_main_thread(getattr(kind, verb)))
    with pytest.raises(Interrupted):
        hold()
    gc.collect()
    eventually(lambda: not held_names(valkey), message="it is no longer renewed, and ends")


def test_an_interruption_while_another_thread_renews_the_same_lease_stops_neither(
    locks: blocking.Client,
) -> None:
    probe = Probe(locks)
    lease = locks.acquire("lock", ttl=600, renew=True)
    renewals: list[None] = []
    is_over = False

    def renew_for_ever() -> None:
        while not is_over:
            lease.renew()
            renewals.append(None)

    def renew() -> None:
        lease.renew()

    other = threading.Thread(target=renew_for_ever, daemon=True)
    other.start()
    # Not `each_moment`: how long the call is depends on the other thread.
    for at in range(1, 90):
        probe.prepare()
        outcome = interrupt(renew, at)
        so_far = len(renewals)
        eventually(lambda so_far=so_far: len(renewals) > so_far, message=f"it hangs after {outcome.where}")
    is_over = True
    other.join(LIMIT)
    assert not other.is_alive()
    probe.check("the end")
    lease.release()


def test_a_wait_for_a_busy_lock_leaves_no_place_in_the_queue(valkey: Server, locks: blocking.Client) -> None:
    probe = Probe(locks)
    busy = locks.acquire("busy", ttl=600)

    def wait() -> None:
        with pytest.raises(AcquireTimeout):
            locks.acquire("busy", wait=0.002)

    for outcome in each_moment(wait, probe.prepare):
        probe.check(outcome.where)
    assert len(probe.moments) > 90
    assert not busy.is_lost
    eventually(lambda: not locks.inspect("busy").waiters, message="none of them waits")
    busy.release()


def test_the_other_verbs_leave_the_client_whole(valkey: Server, locks: blocking.Client, count: Count) -> None:
    probe = Probe(locks)
    number = 0
    taken: list[blocking.Lease] = []

    def take() -> None:
        taken.append(locks.take(f"taken {number}", ttl=TTL, renew=True))

    def once() -> None:
        assert locks.once(f"key {number}", lambda: number, lease_ttl=TTL) == number

    def first_time() -> None:
        locks.first_time("operation", f"key {number}")

    def look() -> None:
        locks.inspect(f"lock {number}")
        list(locks.list())

    def read() -> None:
        with locks.lock(f"shared {number}", ttl=TTL, mode="shared"):
            pass

    for verb in (take, once, first_time, look, read):

        def prepare() -> None:
            nonlocal number
            probe.prepare()
            number += 1

        for outcome in each_moment(verb, prepare, every=count(full=1, quick=3)):
            assert isinstance(outcome.result, Interrupted), outcome
            probe.check(outcome.where)

    for lease in taken:  # of the calls that were over before they were interrupted
        with suppress(LeaseLost):  # a busy machine may take longer than its ttl
            lease.release()

    def left() -> list[str]:
        with valkey.admin(decode_responses=True) as admin:
            runs = list(admin.scan_iter("idempotency:*:lock", count=10_000))
        return [*runs, *[info.name for info in locks.list() if info.is_held and info.name != "kept"]]

    eventually(lambda: left() == [], message="none is left in the store")


def test_file_locks_leave_the_session_able_to_go_on(
    locks: blocking.Client, tmp_path: Path, count: Count
) -> None:
    probe = Probe(locks)
    (tmp_path / "a.txt").write_text("a")
    session = files.FileLocks(locks, root=tmp_path, settings=FileSettings(wait=30)).session("one")

    def edit() -> None:
        with session.read("a.txt") as file:
            file.upgrade()
            file.renew()

    for outcome in each_moment(edit, probe.prepare, every=count(full=1, quick=11)):
        assert isinstance(outcome.result, Interrupted), outcome
        probe.check(outcome.where)
        assert in_another_thread(session.release_session_locks) is not None
        assert session.held == []
    with session.write("a.txt") as file:
        assert file.mode == "write"
    assert len(probe.moments) > count(full=300, quick=30)


def test_a_time_limit_is_not_taken_for_the_silence_of_the_store(locks: blocking.Client) -> None:
    """Many handlers raise TimeoutError, as a socket does; taken for that, the request would be repeated."""
    probe = Probe(locks)
    lease = locks.acquire("lock", ttl=600)
    for outcome in each_moment(lease.renew, probe.prepare, TimeoutError):
        assert type(outcome.result) is TimeoutError, outcome
    lease.release()
