"""The part that both clients share: their engines, namespaces, closing and forks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from leasehold.core import validation
from leasehold.core.backoff import Backoff
from leasehold.core.engine import Engine
from leasehold.core.leases.lease import LeaseState
from leasehold.core.observer import Observers
from leasehold.core.once import Once
from leasehold.core.waiters import alive_for
from leasehold.runtime.fork import register_after_fork
from leasehold.runtime.randomness import SystemRandom
from leasehold.valkey.once_store import ValkeyOnceStore
from leasehold.valkey.options import default_holder
from leasehold.valkey.store import ValkeyStore
from leasehold.valkey.transport.protocols import Transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.observer import Kind
    from leasehold.core.ports import Clock, Concurrency
    from leasehold.errors import Holder

L = TypeVar("L", bound=LeaseState)
S = TypeVar("S", bound=ValkeyStore)
T = TypeVar("T", bound=Transport)
T_co = TypeVar("T_co", bound=Transport, covariant=True)


class StoreAccess(Protocol[T_co, L]):
    """Access to a client's store for packages built on the client. Everything is closed with the client."""

    @property
    def transport(self) -> T_co:
        """The client's own transport."""
        ...

    def namespace_of(self, kind: str) -> str:
        """Return the prefix of the keys of another ``kind``: ``kind`` for namespace "lock", else ``{namespace}:{kind}``."""
        ...

    def engine_for(self, kind: Kind, store_class: Callable[..., S]) -> tuple[Engine[L], S]:
        """Return a new engine for locks of another ``kind``, and its new store."""
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
        self._concurrency = concurrency
        self._random = SystemRandom()
        self._namespace = namespace
        self._live = alive_for(retry_interval)
        self._store = ValkeyStore(transport, namespace=namespace, live=self._live)
        new_engine = partial(
            Engine[L],
            clock=clock,
            random=self._random,
            concurrency=concurrency,
            make_lease=make_lease,
            holder=default_holder if holder is None else lambda: holder,
            timeout=timeout,
            backoff=Backoff(first=retry_interval / 5, cap=retry_interval),
            observers=self.observers,
        )
        self.engine = new_engine(self._store)
        # This engine listens on the transport, for the others too.
        self._new_engine = partial(new_engine, notifications=self.engine.notifications)
        results = ValkeyOnceStore(transport, namespace=namespace, live=self._live)
        self.once_engine = self._new_engine(results.leases, kind="once")
        self.once = Once(self.once_engine, results)
        self._engines = [self.engine, self.once_engine]
        register_after_fork(self)

    def namespace_of(self, kind: str) -> str:
        """See `StoreAccess`."""
        return kind if self._namespace == "lock" else f"{self._namespace}:{kind}"

    def engine_for(self, kind: Kind, store_class: Callable[..., S]) -> tuple[Engine[L], S]:
        """See `StoreAccess`."""
        store = store_class(self.transport, namespace=self.namespace_of(kind), live=self._live)
        engine = self._new_engine(store, kind=kind)
        self._engines.append(engine)
        return engine, store

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
            # If a signal handler has raised above, these have not been closed.
            for engine in self._engines:
                engine.stop()
            await self._store.close()

    def after_fork(self) -> None:
        """In a child process: drop the parent's connections and leases."""
        self._concurrency.after_fork()
        self._random.after_fork()
        self._store.after_fork()
        for engine in self._engines:
            engine.after_fork()
