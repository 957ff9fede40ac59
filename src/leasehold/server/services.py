"""What the routes work with: made once when the application starts, closed when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection  # noqa: TC002 - FastAPI reads it

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

    from leasehold.client import Client
    from leasehold.documents.fastapi import LockRouter
    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.ports import AccessPolicy, DocumentStore
    from leasehold.server.auth.service import Identity
    from leasehold.server.auth.signing_keys import Keys
    from leasehold.server.http.rate_limiter import Limiter
    from leasehold.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """One worker's connections and what stands on them. Nothing in here is needed by another worker.

    ``engine`` is migrated already; ``sessions`` makes sessions on it (``expire_on_commit=False``). ``client`` is
    connected to the store of locks. ``keys`` are the secrets that tokens are signed with. ``live`` has the routes and
    sockets of the locks: tell it when rights have changed.
    """

    settings: Settings
    keys: Keys
    engine: AsyncEngine
    sessions: async_sessionmaker[AsyncSession]
    client: Client
    locks: DocumentLocks
    documents: DocumentStore
    access: AccessPolicy
    live: LockRouter
    identity: Identity
    limiter: Limiter


async def services_of(connection: HTTPConnection) -> Services:
    """The services of the application that is asked; a dependency of requests and of sockets."""
    # Not a plain function: FastAPI would run that in a thread, which costs more than most of our answers.
    return connection.app.state.services


UsesServices = Annotated[Services, Depends(services_of)]
"""``async def endpoint(services: UsesServices)``."""
