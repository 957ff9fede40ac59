"""The blocking client: the same names and arguments as the asynchronous one, for threads."""

from __future__ import annotations

import sys
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from leasehold.client_core import ClientCore
from leasehold.core import validation
from leasehold.core.leases.lease import LeaseState
from leasehold.core.multi_lock import LeasesState, acquire_all, release_in_background
from leasehold.core.once import check_keep, check_once, encode_result, key_of
from leasehold.core.sync_runner import run_sync
from leasehold.errors import LeaseLost, LockBusy, StoreError
from leasehold.runtime import clock
from leasehold.runtime.randomness import SystemRandom
from leasehold.runtime.thread_runtime import ThreadClock, ThreadConcurrency
from leasehold.valkey.options import check_options
from leasehold.valkey.transport.blocking_transport import BlockingTransport
from leasehold.valkey.transport.cluster.transport import over_cluster

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

    from leasehold.client_core import StoreAccess
    from leasehold.core.engine import Engine
    from leasehold.core.replies import LockInfo, Mode, OnLoss
    from leasehold.errors import Holder, LossReason
    from leasehold.valkey.doctor import Finding
    from leasehold.valkey.transport.protocols import Transport


H = TypeVar("H", "Lease", "Leases")
R = TypeVar("R")

# What each `with` that is not over holds. A signal handler may raise at the entry of `__exit__`, where nothing can catch
# it, or again in the clean-up. When that exception is forgotten, and the context with it, its guard is added to
# `_forgotten`, by a function of C, so that no handler can come before it; the renewer looks there. The guards are kept
# here and not in the context, because a guard that is garbage itself does nothing, and no `__del__` is used, because
# CPython drops an exception that a signal handler raises in one.
_guards: dict[weakref.ref[Any] | None, Lease | Leases] = {}
_forgotten: list[weakref.ref[Any]] = []


class Lease(LeaseState):
    """One timed hold of a lock: its name, fence, token, mode and holder, and the verbs.

    As `leasehold.client.Lease`, with verbs that block. Threads cannot be cancelled, so a loss shows in
    ``is_lost``, in `check`, and at the end of ``with``.
    """

    _engine: Engine[Lease]
    is_used_by_threads = True

    def renew(self, ttl: float | None = None) -> None:
        """Extend the lease to ``ttl`` seconds from now (default: the ttl it was acquired with).

        Raises `LeaseLost` if it has ended, and `StoreUnavailable` if the store gave no reply; the lease
        is then unchanged, until its deadline.
        """
        run_sync(self._engine.renew(self, ttl))

    def release(self) -> None:
        """Release the lock. Releasing twice is harmless.

        On return the lease has ended in the store and no renewal is under way. Raises `LeaseLost` if it had ended
        before, so that others may have held the lock since, and `StoreUnavailable` if the store gave no reply: it then
        ends with its ttl at the latest.
        """
        run_sync(self._engine.release(self))

    def abandon(self) -> None:
        """Stop renewing without releasing: the lock stays held until the ttl ends."""
        self._engine.abandon(self)

    def wants_renewal(self) -> bool:
        """Return whether to renew the lease now. Called by the renewer, in whose thread no signal handler runs."""
        with suppress(IndexError):  # another client's renewer may be faster
            while _forgotten:
                held = _guards.pop(_forgotten.pop(), None)
                if held is not None:
                    held.abandon()
        return self.renews

    def lost(self, timeout: float | None = None) -> LossReason | None:
        """Wait until the lease has ended and return the reason; None if ``timeout`` seconds pass first."""
        return run_sync(self.wait_until_lost(timeout))


class Leases(LeasesState[Lease]):
    """The leases of `Client.lock_all`, by name; as `leasehold.client.Leases`."""

    def renew(self, ttl: float | None = None) -> None:
        """Extend each of them to ``ttl`` seconds from now; `LeaseLost` for the first that has ended."""
        run_sync(self.renew_all(ttl))

    def release(self) -> None:
        """Release all of them, even if one fails; then raise the first error."""
        run_sync(self.release_all())

    def lost(self, timeout: float | None = None) -> LossReason | None:
        """Wait until one of them has ended and return the reason; None if ``timeout`` seconds pass first."""
        return run_sync(self.wait_until_lost(timeout))


class LockContext(Generic[H]):
    """The context manager of ``with locks.lock(...)``: a lease (or several) that is renewed inside.

    If the lease is lost, ``lease.is_lost`` is true at once, ``lease.check()`` raises, and `LeaseLost` is raised at
    the end. An exception of the body is never hidden.

    If a signal handler raises, at whatever moment, the lease is released, or it is no longer renewed and ends with its
    ttl.
    """

    def __init__(self, acquire: Callable[[], H]) -> None:
        self._acquire = acquire
        self._held: H | None = None
        self._guard: weakref.ref[LockContext[H]] | None = None

    def __enter__(self) -> H:
        try:
            # Before there is a lease: no handler can run between the return of `_acquire` and the end of the line.
            self._guard = weakref.ref(self, _forgotten.append)
            _guards[self._guard] = self._held = held = self._acquire()
        except BaseException:
            self._guard = None
            raise
        return held

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held = self._held
        assert held is not None
        has_ended = True
        try:
            if not held.is_abandoned:
                held.release()
        except LeaseLost as lost:
            if error is None:
                raise
            if not isinstance(error, LeaseLost):
                error.add_note(f"In addition, {lost}.")
        except StoreError as failure:
            if error is None:
                raise
            error.add_note(f"{held!r} could not be released: {failure}.")
        except BaseException:
            # From a signal handler, perhaps before the release has begun. The guard stays if another one raises here.
            has_ended = False
            held.abandon()
            has_ended = True
            raise
        finally:
            if has_ended:
                guard, self._guard = self._guard, None
                _guards.pop(guard, None)


class Client:
    """Locks on one store, for threads; any number of them may share it.

    Use it as a context manager, or call `close` in the end. Every method has three outcomes: yes, no (a
    value or `LockBusy`), and unknown (`StoreUnavailable`), which is never reported as no.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        holder: Holder | None,
        namespace: str,
        timeout: float,
        retry_interval: float,
        where: str = "",
    ) -> None:
        self._core = ClientCore(
            transport,
            clock=ThreadClock(),
            concurrency=ThreadConcurrency(),
            make_lease=Lease,
            holder=holder,
            namespace=namespace,
            timeout=timeout,
            retry_interval=retry_interval,
            where=where,
        )
        self.lookout = self._core.observers
        """The observers of this client; see `leasehold.observe`."""
        self._engine = self._core.engine

    @property
    def store_access(self) -> StoreAccess[Transport, Lease]:
        """The client's store, for packages built on the client."""
        return self._core

    def __enter__(self) -> Self:
        run_sync(self._core.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop renewing and disconnect. Leases that are still held end with their ttl."""
        run_sync(self._core.close())

    def lock(
        self,
        name: str,
        *,
        ttl: float = 30,
        wait: float | None = 5,
        mode: Mode = "exclusive",
        holder: Holder | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        floor: int | None = None,
        on_loss: OnLoss = "cancel",
        retry_interval: float | None = None,
    ) -> LockContext[Lease]:
        """Hold the lock inside ``with``; see `acquire` and `LockContext`.

        ``on_loss`` makes no difference: a thread cannot be cancelled. It keeps the arguments the same on both sides.
        """
        validation.check_on_loss(on_loss)
        return LockContext(
            lambda: self.acquire(
                name,
                ttl=ttl,
                wait=wait,
                mode=mode,
                holder=holder,
                renew=renew,
                max_hold=max_hold,
                floor=floor,
                retry_interval=retry_interval,
            )
        )

    def acquire(
        self,
        name: str,
        *,
        ttl: float = 30,
        wait: float | None = 5,
        mode: Mode = "exclusive",
        holder: Holder | None = None,
        renew: bool = False,
        max_hold: float | None = None,
        floor: int | None = None,
        on_loss: OnLoss = "cancel",
        retry_interval: float | None = None,
    ) -> Lease:
        """Get the lock, waiting up to ``wait`` seconds; see `leasehold.client.Client.acquire`."""
        validation.check_on_loss(on_loss)
        return run_sync(
            self._engine.acquire(name, ttl, wait, mode, holder, renew, max_hold, floor, retry_interval)
        )

    def try_acquire(
        self,
        name: str,
        *,
        ttl: float = 30,
        mode: Mode = "exclusive",
        holder: Holder | None = None,
        renew: bool = False,
        max_hold: float | None = None,
        floor: int | None = None,
        on_loss: OnLoss = "cancel",
    ) -> Lease | None:
        """Get the lock if it is free now; None if it is held."""
        try:
            return self.acquire(
                name,
                ttl=ttl,
                wait=0,
                mode=mode,
                holder=holder,
                renew=renew,
                max_hold=max_hold,
                floor=floor,
                on_loss=on_loss,
            )
        except LockBusy:
            return None

    def lock_all(
        self,
        names: Iterable[str],
        *,
        ttl: float = 30,
        wait: float | None = 5,
        mode: Mode = "exclusive",
        holder: Holder | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        floor: int | None = None,
        on_loss: OnLoss = "cancel",
    ) -> LockContext[Leases]:
        """Hold all of these locks inside ``with``, or none; see `leasehold.client.Client.lock_all`."""
        validation.check_on_loss(on_loss)
        several = validation.check_names(names)
        validation.check_request(several[0], ttl, wait, mode)

        def acquire() -> Leases:
            leases = run_sync(
                acquire_all(self._engine, several, ttl, wait, mode, holder, renew, max_hold, floor)
            )
            try:
                return Leases(self._engine, leases)
            except BaseException:  # from a signal handler
                release_in_background(self._engine, leases)
                raise

        return LockContext(acquire)

    def take(
        self,
        name: str,
        *,
        ttl: float = 30,
        mode: Mode = "exclusive",
        holder: Holder | None = None,
        renew: bool = False,
        max_hold: float | None = None,
        floor: int | None = None,
        on_loss: OnLoss = "cancel",
        expect_fence: int | None = None,
    ) -> Lease:
        """Take the lock by force; see `leasehold.client.Client.take`."""
        validation.check_on_loss(on_loss)
        return run_sync(self._engine.take(name, ttl, mode, holder, renew, max_hold, floor, expect_fence))

    def once(
        self,
        key: str,
        fn: Callable[[], R] | Callable[[Lease], R],
        *,
        ttl: float = 86400,
        lease_ttl: float = 30,
        wait: float | None = 5,
    ) -> R:
        """Run ``fn`` unless it has been run under ``key`` before; see `leasehold.client.Client.once`.

        A thread cannot be cancelled: if the lease is lost, ``fn`` runs on, and `LeaseLost` is raised at its end.
        """
        run = check_once(key, fn, ttl)

        async def work() -> R:  # it blocks and never suspends, as everything here
            return self._run_once(key, run, ttl, lease_ttl, wait)

        return run_sync(self._core.once_engine.observed("once", key, work))

    def _run_once(
        self, key: str, run: Callable[[Lease], R], ttl: float, lease_ttl: float, wait: float | None
    ) -> R:
        if kept := run_sync(self._core.once.recall(key)):
            return kept[0]
        engine = self._core.once_engine
        context: LockContext[Lease] = LockContext(
            lambda: run_sync(engine.acquire(key, lease_ttl, wait, "exclusive", None, True, None, None))
        )
        try:
            lease = context.__enter__()
        except LockBusy as busy:
            return run_sync(self._core.once.recall_instead(key, busy))
        encoded = ""
        try:
            kept = run_sync(self._core.once.recall(key))
            if not kept:
                encoded = encode_result(key, run(lease))
                lease.check()
        except BaseException:
            context.__exit__(*sys.exc_info())
            raise
        if not kept:
            # If this fails, nothing is released here: the work must not run again before the lease has ended.
            try:
                kept = [run_sync(self._core.once.finish(lease, encoded, ttl))]
            except BaseException:
                lease.abandon()
                raise
        context.__exit__(None, None, None)
        return kept[0]

    def first_time(self, operation: str, unique_key: str | int, *, ttl: float = 86400) -> bool:
        """Return True for the first call with this key; see `leasehold.client.Client.first_time`."""
        key = key_of(operation, unique_key)
        check_keep(ttl)
        return run_sync(
            self._core.once_engine.observed("first_time", key, lambda: self._core.once.first_time(key, ttl))
        )

    def inspect(self, name: str) -> LockInfo:
        """Return the holders of the lock and the number of waiters, as of the store's reply."""
        return run_sync(self._engine.inspect(name))

    def list(self, pattern: str = "*") -> Iterator[LockInfo]:
        """List the locks whose names match ``pattern``; see `leasehold.client.Client.list`."""
        cursor: object = 0
        while True:
            cursor, found = run_sync(self._engine.page(pattern, cursor))
            yield from found
            if not cursor:
                return

    def diagnose(self) -> list[Finding]:
        """Return problems of the store's configuration, each with a remedy; see `leasehold doctor`."""
        from leasehold.valkey.doctor import diagnose  # noqa: PLC0415 - for one command of an operator

        return run_sync(diagnose(self._core.transport, self._engine))


def connect(
    url: str | None = None,
    *,
    holder: Holder | None = None,
    namespace: str = "lock",
    timeout: float = 2,
    retry_interval: float = 0.05,
    data_dir: Path | str | None = None,
    tls: ssl.SSLContext | None = None,
    client_name: str | None = None,
    allow_eviction: bool = False,
    max_connections: int | None = None,
) -> Client:
    """Return a blocking client for the store at ``url``, or for an embedded Valkey without one.

    The arguments are those of `leasehold.connect`. Each thread with a request under way uses a socket of its own;
    ``max_connections`` limits their number, to each node if the store is a cluster.
    """
    options = check_options(
        url,
        timeout=timeout,
        data_dir=data_dir,
        tls=tls,
        client_name=client_name,
        allow_eviction=allow_eviction,
        max_connections=max_connections,
    )
    fraction, concurrency = SystemRandom().fraction, ThreadConcurrency()
    transport = over_cluster(
        options,
        lambda node: BlockingTransport(node, clock=clock.now, fraction=fraction, concurrency=concurrency),
        clock=ThreadClock(),
        fraction=fraction,
        concurrency=concurrency,
    )
    return Client(
        transport,
        holder=holder,
        namespace=namespace,
        timeout=timeout,
        retry_interval=retry_interval,
        where=options.where,
    )
