"""The resources of the application: built without connecting, opened and closed by its lifespan."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from opentelemetry import trace

import leasehold
from leasehold.observe import observe
from leasehold.server.app.demo import create_demo, end_demo
from leasehold.server.auth.service import open_auth
from leasehold.server.auth.signing_keys import load_keys
from leasehold.server.auth.socket_logout import SocketLogout
from leasehold.server.db.engine import close_engine, open_engine, session_factory
from leasehold.server.db.migrate import migrate
from leasehold.server.documents.document_store import SqlDocumentStore
from leasehold.server.http.large_bodies import AT_ONCE
from leasehold.server.http.logs import lock_logger
from leasehold.server.http.rate_limiter import make_rate_limiter
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
class Resources:
    """The resources that exist before the application starts. They are not connected yet."""

    settings: Settings
    engine: AsyncEngine
    database: async_sessionmaker[AsyncSession]
    client: Client
    documents: DocumentStore
    access: AccessPolicy

    @classmethod
    def build(cls, settings: Settings) -> Self:
        """Build them without connecting; `leasehold.InvalidRequest` for invalid settings."""
        engine = open_engine(settings.database_url)
        database = session_factory(engine)
        client = leasehold.connect(
            settings.store_url,
            data_dir=settings.data_dir if settings.store_url is None else None,
            timeout=settings.store_timeout,
            allow_eviction=settings.allow_eviction,
        )
        documents = SqlDocumentStore(database, max_bytes_per_owner=settings.max_bytes_per_owner)
        return cls(settings, engine, database, client, documents, SqlAccessPolicy(database))

    def observe(self, registry: CollectorRegistry | None) -> None:
        """Log lock operations, count them in ``registry`` if given, and trace them if traces are collected."""
        observe(
            self.client,
            metrics=registry is not None,
            registry=registry,
            tracing=not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider),
            logger=lock_logger(self.settings),
        )

    @asynccontextmanager
    async def open(self, live: LockRouter) -> AsyncGenerator[Services]:
        """The services for the life of a worker. The database must answer; the lock store may come later."""
        settings = self.settings
        keys = load_keys(settings.secret_key, settings.data_dir)
        _create_private_database(settings)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(close_engine, self.engine)
            stack.push_async_callback(self.client.close)
            await migrate(self.engine)
            if not settings.demo:
                await end_demo(self.database)
            rate_limiter = make_rate_limiter(settings)
            auth = await stack.enter_async_context(
                open_auth(self.database, self.client, keys=keys, rate_limiter=rate_limiter, settings=settings)
            )
            if settings.demo:
                await create_demo(self.database, auth.passwords)
            await stack.enter_async_context(SocketLogout(self.database, auth.revocations, live))
            yield Services(
                settings=settings,
                engine=self.engine,
                database=self.database,
                client=self.client,
                locks=live.documents,
                documents=self.documents,
                access=self.access,
                live=live,
                auth=auth,
                rate_limiter=rate_limiter,
                decoding=asyncio.Semaphore(AT_ONCE),
            )


def _create_private_database(settings: Settings) -> None:
    """Make the database in the data directory private; SQLite creates the files beside it with the same mode."""
    path = settings.data_dir / "documents.sqlite"
    if settings.database_url == f"sqlite:///{path}":
        open_data_dir(settings.data_dir)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
