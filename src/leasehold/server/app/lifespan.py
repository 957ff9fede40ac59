"""What the application stands on: laid without a word to anybody, opened when the application starts."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from opentelemetry import trace

import leasehold
from leasehold.observe import observe
from leasehold.server.app.demo import end_demo, make_demo
from leasehold.server.auth.service import open_identity
from leasehold.server.auth.signing_keys import load_keys
from leasehold.server.auth.socket_logout import SignOuts
from leasehold.server.db.engine import close_engine, open_engine, sessions_of
from leasehold.server.db.migrate import migrate
from leasehold.server.documents.document_store import SqlDocumentStore
from leasehold.server.http.logs import lock_logger
from leasehold.server.http.rate_limiter import make_limiter
from leasehold.server.services import Services
from leasehold.server.teams.access import SqlAccessPolicy
from leasehold.valkey.embedded.data_dir import open_data_dir

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from prometheus_client import CollectorRegistry
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

    from leasehold.client import Client
    from leasehold.documents.fastapi import LockRouter
    from leasehold.documents.ports import AccessPolicy, DocumentStore
    from leasehold.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Foundation:
    """Everything that can be made before the application starts. Nothing is connected yet."""

    settings: Settings
    engine: AsyncEngine
    sessions: async_sessionmaker[AsyncSession]
    client: Client
    documents: DocumentStore
    access: AccessPolicy

    @classmethod
    def lay(cls, settings: Settings) -> Self:
        """As the settings say; `leasehold.InvalidRequest` if they cannot be right."""
        engine = open_engine(settings.database_url)
        sessions = sessions_of(engine)
        client = leasehold.connect(
            settings.store_url,
            data_dir=settings.data_dir if settings.store_url is None else None,
            timeout=settings.store_timeout,
            allow_eviction=settings.allow_eviction,
        )
        return cls(settings, engine, sessions, client, SqlDocumentStore(sessions), SqlAccessPolicy(sessions))

    def watch(self, registry: CollectorRegistry | None) -> None:
        """Have what is done with locks counted in ``registry`` if there is one, logged, and traced if anybody collects traces."""
        observe(
            self.client,
            metrics=registry is not None,
            registry=registry,
            tracing=not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider),
            logger=lock_logger(self.settings),
        )

    @asynccontextmanager
    async def open(self, live: LockRouter) -> AsyncGenerator[Services]:
        """The services, for as long as a worker runs. The database must answer; the store may come later."""
        settings = self.settings
        secret = settings.secret_key.get_secret_value() if settings.secret_key else None
        keys = load_keys(secret, settings.data_dir)
        _make_private(settings)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(close_engine, self.engine)
            stack.push_async_callback(self.client.close)
            await migrate(self.engine)
            if not settings.demo:
                await end_demo(self.sessions)
            identity = await stack.enter_async_context(
                open_identity(self.sessions, self.client, keys=keys, settings=settings)
            )
            if settings.demo:
                await make_demo(self.sessions, identity.passwords)
            await stack.enter_async_context(SignOuts(self.sessions, identity.revocations, live))
            yield Services(
                settings=settings,
                keys=keys,
                engine=self.engine,
                sessions=self.sessions,
                client=self.client,
                locks=live.documents,
                documents=self.documents,
                access=self.access,
                live=live,
                identity=identity,
                limiter=make_limiter(settings),
            )


def _make_private(settings: Settings) -> None:
    """The database in the data directory is for us alone; SQLite makes the files beside it as it finds this one."""
    kept = settings.data_dir / "documents.sqlite"
    if settings.database_url == f"sqlite:///{kept}":
        open_data_dir(settings.data_dir)
        os.close(os.open(kept, os.O_RDWR | os.O_CREAT, 0o600))
