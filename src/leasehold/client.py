"""The asynchronous client."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Self, TypeVar

from leasehold.client_core import ClientCore
from leasehold.core import validation
from leasehold.core.leases.lease import LeaseState
from leasehold.core.multi_lock import LeasesState, acquire_all
from leasehold.core.once import check_keep, check_once, encode_result, key_of
from leasehold.errors import LockBusy
from leasehold.lock_context import AsyncOnly, LockContext
from leasehold.runtime import clock
from leasehold.runtime.asyncio_runtime import AsyncioClock, AsyncioConcurrency
from leasehold.runtime.randomness import SystemRandom
from leasehold.valkey.options import check_options
from leasehold.valkey.transport.async_transport import AsyncTransport
from leasehold.valkey.transport.cluster.transport import over_cluster

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
    from pathlib import Path
    from types import TracebackType

    from leasehold.client_core import StoreAccess
    from leasehold.core.engine import Engine
    from leasehold.core.replies import LockInfo, Mode, OnLoss
    from leasehold.errors import Holder, LossReason
    from leasehold.valkey.doctor import Finding
    from leasehold.valkey.transport.protocols import PubSubTransport

R = TypeVar("R")


class Lease(LeaseState):
    """One timed hold of a lock: its name, fence, token, mode and holder, and the verbs.

    ``fence`` grows with every grant of the lock: pass it on to the resource you write to, and have the
    resource refuse a smaller one than it has seen. ``token`` is a secret: it lets anyone renew and release the lease.
    """

    _engine: Engine[Lease]
    scope: LockContext[Any] | None = None

    async def renew(self, ttl: float | None = None) -> None:
        """Extend the lease to ``ttl`` seconds from now (default: the ttl it was acquired with).

        Raises `LeaseLost` if it has ended, and `StoreUnavailable` if the store gave no reply; the lease
        is then unchanged, until its deadline.
        """
        await self._engine.renew(self, ttl)

    def release(self) -> Coroutine[Any, Any, None]:
        """Release the lock. Releasing twice is harmless.

        On return the lease has ended in the store and no renewal is under way. Raises `LeaseLost` if it had ended
        before, so that others may have held the lock since, and `StoreUnavailable` if the store gave no reply: it then
        ends with its ttl at the latest.
        """
        return self._engine.release(self)

    def abandon(self) -> None:
        """Stop renewing without releasing: the lock stays held until the ttl ends."""
        self._engine.abandon(self)

    async def lost(self, timeout: float | None = None) -> LossReason | None:
        """Wait until the lease has ended and return the reason; None if ``timeout`` seconds pass first."""
        return await self.wait_until_lost(timeout)

    def on_end(self) -> None:
        """Cancel the body of ``async with``, if there is one."""
        if self.scope is not None:
            self.scope.lease_ended(self)


class Leases(LeasesState[Lease]):
    """The leases of `Client.lock_all`, by name: ``leases["a"].fence``, or ``leases.fences``.

    They count as held only while every one of them is.
    """

    async def renew(self, ttl: float | None = None) -> None:
        """Extend each of them to ``ttl`` seconds from now; `LeaseLost` for the first that has ended."""
        await self.renew_all(ttl)

    async def release(self) -> None:
        """Release all of them, even if one fails; then raise the first error."""
        await self.release_all()

    async def lost(self, timeout: float | None = None) -> LossReason | None:
        """Wait until one of them has ended and return the reason; None if ``timeout`` seconds pass first."""
        return await self.wait_until_lost(timeout)


class Client(AsyncOnly):
    """Locks on one store, for asyncio.

    Use it as a context manager, or call `close` in the end. It belongs to the event loop that uses it
    first. Every method has three outcomes: yes, no (a value or `LockBusy`), and unknown
    (`StoreUnavailable`), which is never reported as no.
    """

    def __init__(
        self,
        transport: PubSubTransport,
        *,
        concurrency: AsyncioConcurrency,
        holder: Holder | None,
        namespace: str,
        timeout: float,
        retry_interval: float,
        where: str = "",
    ) -> None:
        self._core = ClientCore(
            transport,
            clock=AsyncioClock(),
            concurrency=concurrency,
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
    def store_access(self) -> StoreAccess[PubSubTransport, Lease]:
        """The client's store, for packages built on the client."""
        return self._core

    async def __aenter__(self) -> Self:
        await self._core.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop renewing and disconnect. Leases that are still held end with their ttl."""
        await self._core.close()

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
        """Hold the lock inside ``async with``; see `acquire` and `LockContext`."""
        validation.check_on_loss(on_loss)
        return LockContext(
            self._engine,
            lambda: self._engine.acquire(
                name, ttl, wait, mode, holder, renew, max_hold, floor, retry_interval
            ),
            on_loss,
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
    ) -> Coroutine[Any, Any, Lease]:
        """Get the lock, waiting up to ``wait`` seconds (0: ask once, None: no limit).

        Raises `LockBusy` (``wait=0``) or `AcquireTimeout` if it is held by another, `StoreUnavailable` if the store
        gives no reply, `StoreRefused` if it refuses. ``ttl`` counts in seconds from before the request was sent.
        ``renew`` keeps the lease alive until it is released, at most for ``max_hold`` seconds. The fence will be at
        least ``floor``. ``holder`` is shown to others. There is no body to cancel here, so ``on_loss`` makes no
        difference: check the lease. ``retry_interval`` is how often to poll while waiting, in case a notification is
        lost; the client's own by default.
        """
        if on_loss != "cancel":
            validation.check_on_loss(on_loss)
        # Returned as it is: a coroutine around it would cost a tenth of the client's work.
        return self._engine.acquire(name, ttl, wait, mode, holder, renew, max_hold, floor, retry_interval)

    async def try_acquire(
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
        validation.check_on_loss(on_loss)
        try:
            return await self._engine.acquire(name, ttl, 0, mode, holder, renew, max_hold, floor)
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
        """Hold all of these locks inside ``async with``, or none; see `acquire` and `LockContext`.

        If all are free they are granted in one atomic step. Otherwise they are waited for one after another, in the
        byte order of their names, ``wait`` seconds for all of them together: callers that hold nothing else cannot
        deadlock. The `Leases` inside have a fence for each name.
        """
        validation.check_on_loss(on_loss)
        several = validation.check_names(names)
        validation.check_request(several[0], ttl, wait, mode)

        async def acquire() -> Leases:
            leases = await acquire_all(self._engine, several, ttl, wait, mode, holder, renew, max_hold, floor)
            return Leases(self._engine, leases)

        return LockContext(self._engine, acquire, on_loss)

    async def take(
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
        """Take the lock by force: its holder loses it at this moment, and is notified at once. Waiters go on waiting.

        With ``expect_fence`` only from the holder of that fence; `LockBusy` if another holds it by now. The new fence
        is larger than that of every lease before, so a resource that compares fences refuses the old holder from the
        first write under the new one.
        """
        validation.check_on_loss(on_loss)
        return await self._engine.take(name, ttl, mode, holder, renew, max_hold, floor, expect_fence)

    async def once(
        self,
        key: str,
        fn: Callable[[], Awaitable[R] | R] | Callable[[Lease], Awaitable[R] | R],
        *,
        ttl: float = 86400,
        lease_ttl: float = 30,
        wait: float | None = 5,
    ) -> R:
        """Run ``fn`` unless it has been run under ``key`` before; return its result, or the one kept before.

        The result must be JSON and is kept for ``ttl`` seconds; every caller gets it decoded from JSON. While ``fn``
        runs, a lease of ``lease_ttl`` seconds is renewed; if the process dies, the next caller runs it again when that
        lease has ended. Callers that come in between wait up to ``wait`` seconds for the result, then `InProgress` is
        raised. If ``fn`` raises, nothing is kept. If the lease is lost, ``fn`` is cancelled and `LeaseLost` is raised:
        another caller may be running it, so it must be safe to run twice, or pass the fence of its lease on: if ``fn``
        has a required parameter, it gets the lease.

        Once ``fn`` has returned, its result is kept even if the caller is cancelled, or the store is away for a while.
        `StoreError` is raised if it still is when the lease ends: the result may have been kept or not, and ``fn`` does
        not run again before the lease has ended.
        """
        run = check_once(key, fn, ttl)
        return await self._core.once_engine.observed(
            "once", key, lambda: self._run_once(key, run, ttl, lease_ttl, wait)
        )

    async def _run_once(
        self,
        key: str,
        run: Callable[[Lease], Awaitable[R] | R],
        ttl: float,
        lease_ttl: float,
        wait: float | None,
    ) -> R:
        if kept := await self._core.once.recall(key):
            return kept[0]
        engine = self._core.once_engine
        context: LockContext[Lease] = LockContext(
            engine,
            lambda: engine.acquire(key, lease_ttl, wait, "exclusive", None, True, None, None),
            "cancel",
        )
        try:
            lease = await context.__aenter__()
        except LockBusy as busy:
            return await self._core.once.recall_instead(key, busy)
        encoded = ""
        try:
            kept = await self._core.once.recall(key)
            if not kept:
                result = run(lease)
                if inspect.isawaitable(result):
                    result = await result
                encoded = encode_result(key, result)
                lease.check()
        except BaseException:
            await context.__aexit__(*sys.exc_info())
            raise
        if not kept:
            # If this fails, nothing is released here: `finish` decides about the lease.
            context.let_go()
            kept = [await self._core.once.finish(lease, encoded, ttl)]
        await context.__aexit__(None, None, None)
        return kept[0]

    async def first_time(self, operation: str, unique_key: str | int, *, ttl: float = 86400) -> bool:
        """Return True for the first call with ``operation`` and ``unique_key`` within ``ttl`` seconds, else False.

        A plain check-and-set: the caller that gets True must do the work, and if it dies before, the work is not done.
        `once` has no such gap.
        """
        key = key_of(operation, unique_key)
        check_keep(ttl)
        return await self._core.once_engine.observed(
            "first_time", key, lambda: self._core.once.first_time(key, ttl)
        )

    async def inspect(self, name: str) -> LockInfo:
        """Return the holders of the lock and the number of waiters, as of the store's reply."""
        return await self._engine.inspect(name)

    async def list(self, pattern: str = "*") -> AsyncIterator[LockInfo]:
        """List the locks that are held or waited for and whose names match ``pattern``.

        As in a shell: ``*``, ``[ab]``, and ``?`` for one byte, of which some characters take several. Scans the store
        in small steps, so that other clients are not delayed. A lock that exists all the time is listed, once or,
        rarely, twice; one that comes or goes in between may or may not be.
        """
        cursor: object = 0
        while True:
            cursor, found = await self._engine.page(pattern, cursor)
            for info in found:
                yield info
            if not cursor:
                return

    async def diagnose(self) -> list[Finding]:
        """Return problems of the store's configuration, each with a remedy; see `leasehold doctor`."""
        from leasehold.valkey.doctor import diagnose  # noqa: PLC0415 - for one command of an operator

        return await diagnose(self._core.transport, self._engine)


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
    """Return a client for the store at ``url``, or for an embedded Valkey without one.

    ``redis://``, ``valkey://``, ``rediss://`` and ``valkeys://`` (TLS), ``unix://``, and of several servers
    ``redis+sentinel://`` and ``redis+cluster://`` (with TLS ``rediss+…``); docs/service.md has their options. Nothing is sent
    before the first use; ``async with`` makes sure that the store can be reached. ``timeout`` is for each
    reply, ``retry_interval`` the longest pause while waiting for a lock. ``data_dir`` is where the
    embedded server keeps its data: by default the user's data directory, whose server all programs of this user share (it is
    logged at INFO which one it is). A server that evicts keys is refused unless ``allow_eviction``.
    ``max_connections`` limits the sockets of the blocking client; this one always uses one to each server.
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
    concurrency = AsyncioConcurrency()
    fraction = SystemRandom().fraction
    transport = over_cluster(
        options,
        lambda node: AsyncTransport(node, clock=clock.now, fraction=fraction, check_loop=concurrency.check),
        clock=AsyncioClock(),
        fraction=fraction,
        concurrency=concurrency,
    )
    return Client(
        transport,
        concurrency=concurrency,
        holder=holder,
        namespace=namespace,
        timeout=timeout,
        retry_interval=retry_interval,
        where=options.where,
    )
