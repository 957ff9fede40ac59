"""The part that both clients share: their engines, namespaces, closing and forks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from leasehold.core import validation
from leasehold.core.backoff import Backoff
from leasehold.core.engine import Engine
from leasehold.core.lease import LeaseState
from leasehold.core.observer import Observers
from leasehold.core.once import Once
from leasehold.core.waiters import alive_for
from leasehold.runtime.fork import register_after_fork
from leasehold.runtime.randomness import SystemRandom
from leasehold.valkey.once_store import ValkeyResults
from leasehold.valkey.options import default_holder
from leasehold.valkey.store import ValkeyStore
from leasehold.valkey.transport.protocols import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.observer import Kind
    from leasehold.core.ports import Clock, Concurrency, Store
    from leasehold.errors import Holder

L = TypeVar("L", bound=LeaseState)
S = TypeVar("S", bound=ValkeyStore)
T = TypeVar("T", bound=Wire)
T_co = TypeVar("T_co", bound=Wire, covariant=True)


class StoreAccess(Protocol[T_co, L]):
    """The use that a package built on a client may make of the client's store. All of it is closed with the client."""

    @property
    def transport(self) -> T_co:
        """The client's own transport."""
        ...

    def namespace_of(self, kind: str) -> str:
        """The prefix of the keys of another ``kind``: the kind alone beside "lock", else ``{namespace}:{kind}``."""
        ...

    def engine_for(self, kind: Kind, store_class: Callable[..., S]) -> tuple[Engine[L], S]:
        """A new engine for locks of another ``kind``, and the new store that it uses."""
        ...


class ClientCore(Generic[T, L]):
    """The engines of one client over one transport. Implements `StoreAccess`."""

    def __init__(
        self,
        transport: T,
        *,
        clock: Clock,
        concurrency: Concurrency,
        make_lease: Callable[..., L],
        holder: Holder | None,
        namespace: str,
        timeout: float,
        retry_interval: float,
        where: str,
    ) -> None:
        validation.check_duration(timeout, "timeout")
        validation.check_duration(retry_interval, "retry_interval")
        self.transport = transport
        self.observers = Observers(where)
        self._clock = clock
        self._concurrency = concurrency
        self._make_lease = make_lease
        self._random = SystemRandom()
        self._namespace = namespace
        self._live = alive_for(retry_interval)
        self._holder: Callable[[], Holder] = default_holder if holder is None else lambda: holder
        self._timeout = timeout
        self._backoff = Backoff(first=retry_interval / 5, cap=retry_interval)
        self._engines: list[Engine[L]] = []
        self._store = ValkeyStore(transport, namespace=namespace, live=self._live)
        self.engine = self._make_engine(self._store, "lock")
        results = ValkeyResults(transport, namespace=namespace, live=self._live)
        self.once_engine = self._make_engine(results.leases, "once")
        self.once = Once(self.once_engine, results)
        register_after_fork(self)

    def _make_engine(self, store: Store, kind: Kind) -> Engine[L]:
        engine = Engine(
            store,
            self._clock,
            self._random,
            self._concurrency,
            make_lease=self._make_lease,
            holder=self._holder,
            timeout=self._timeout,
            backoff=self._backoff,
            # The first engine receives the notifications of the transport for all of them.
            notifications=self._engines[0].notifications if self._engines else None,
            kind=kind,
            observers=self.observers,
        )
        self._engines.append(engine)
        return engine

    def namespace_of(self, kind: str) -> str:
        """See `StoreAccess`."""
        return kind if self._namespace == "lock" else f"{self._namespace}:{kind}"

    def engine_for(self, kind: Kind, store_class: Callable[..., S]) -> tuple[Engine[L], S]:
        """See `StoreAccess`."""
        store = store_class(self.transport, namespace=self.namespace_of(kind), live=self._live)
        return self._make_engine(store, kind), store

    async def open(self) -> None:
        """Make sure that the store can be reached; close everything if it cannot."""
        self._concurrency.check()
        try:
            await self.engine.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop renewing and disconnect. Leases that are still held end with their ttl."""
        try:
            first, *others = self._engines
            await first.close()
            await self.once.close()
            for engine in others:
                await engine.close()
            await self._concurrency.close()
        finally:
            await self._store.close()

    def after_fork(self) -> None:
        """In a child process: drop everything that belongs to the parent."""
        self._concurrency.after_fork()
        self._random.after_fork()
        self._store.after_fork()
        for engine in self._engines:
            engine.after_fork()
