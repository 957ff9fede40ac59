"""Who is who, in one worker: accounts, sessions and tokens, put together."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from argon2 import PasswordHasher

from leasehold.errors import NotSignedIn, StoreError
from leasehold.runtime.asyncio_runtime import end_tasks
from leasehold.server.auth.csrf import CsrfTokens
from leasehold.server.auth.logins import Sessions, SignedIn
from leasehold.server.auth.passwords import Passwords
from leasehold.server.auth.revocations import Revocations
from leasehold.server.auth.tokens import Tokens
from leasehold.server.auth.users import Users
from leasehold.server.demo_passwords import DemoPasswords

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.client import Client
    from leasehold.documents.ports import Principal
    from leasehold.server.auth.signing_keys import Keys
    from leasehold.server.db.models import UserRow
    from leasehold.server.settings import Settings

_PRUNE_EVERY = 3600.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Registers people, signs them in and out, and says who a token speaks for."""

    users: Users
    passwords: Passwords
    sessions: Sessions
    tokens: Tokens
    csrf: CsrfTokens
    revocations: Revocations

    async def register(self, *, email: str, password: str, display_name: str) -> UserRow:
        """A new user; `leasehold.AlreadyExists` if somebody has the address."""
        return await self.users.add(
            email=email, display_name=display_name, password_hash=await self.passwords.hash(password)
        )

    async def sign_in(self, *, email: str, password: str) -> SignedIn:
        """A new session; `NotSignedIn` if there is no such user, or the password is wrong, and not which."""
        user = await self.users.with_email(email)
        is_right = await self.passwords.verify(password, user.password_hash if user else None)
        if user is None or not is_right:
            raise NotSignedIn("the address or the password is wrong")
        if self.passwords.is_outdated(user.password_hash):
            await self.users.keep_password(user, await self.passwords.hash(password))
        return await self.sessions.start(user)

    async def refresh(self, refresh_token: str) -> SignedIn:
        """The session, kept alive. `NotSignedIn` if it is over; see `Sessions.refresh`."""
        outcome = await self.sessions.refresh(refresh_token)
        if isinstance(outcome, str):
            _log.warning("session %s has ended: a refresh token came a second time", outcome)
            await self.revocations.add(outcome)
            raise NotSignedIn("the session is over: sign in again")
        return outcome

    async def sign_out(self, session_id: str | None) -> None:
        """End the session, if there is one: its tokens are refused here from now on, and by other workers soon."""
        if session_id is not None:
            await self.sessions.end(session_id)
            await self.revocations.add(session_id)

    async def sign_out_with(self, *, refresh_token: str | None, access_token: str | None) -> None:
        """End the session of each, also if it has expired. `NotSignedIn` if there is nothing but what we did not make."""
        if refresh_token is not None:
            await self.sign_out(await self.sessions.session_of(refresh_token))
        elif access_token is None:
            raise NotSignedIn("there is no session")
        if access_token is None:
            return
        try:
            session_id = self.tokens.session_of(access_token)
        except NotSignedIn:
            if refresh_token is None:
                raise
        else:
            await self.sign_out(session_id)

    def principal_of(self, access_token: str) -> Principal:
        """Who the token speaks for; `NotSignedIn` if it is not valid, has expired, or its session was ended."""
        principal = self.tokens.verify(access_token)
        if self.revocations.is_ended(principal.session_id):
            raise NotSignedIn("the session is over: sign in again")
        return principal


@asynccontextmanager
async def open_identity(
    database: async_sessionmaker[AsyncSession], client: Client, *, keys: Keys, settings: Settings
) -> AsyncGenerator[Identity]:
    """For as long as a worker runs. ``client`` is connected to the store that all workers share."""
    sessions = Sessions(database, keys.of("refresh tokens"), days=settings.refresh_token_days)
    tokens = Tokens(keys.of("access tokens"), seconds=settings.access_token_seconds)
    csrf = CsrfTokens(keys.of("csrf tokens"))
    hasher = PasswordHasher(
        time_cost=settings.argon2_time_cost,
        memory_cost=settings.argon2_memory_kib,
        parallelism=settings.argon2_parallelism,
    )
    async with Revocations(
        database, client.store_access.transport, seconds=settings.access_token_seconds
    ) as revocations:
        pruning = asyncio.get_running_loop().create_task(_prune(sessions), name="leasehold-pruning")
        with closing(DemoPasswords(hasher) if settings.demo else Passwords(hasher)) as passwords:
            try:
                yield Identity(Users(database), passwords, sessions, tokens, csrf, revocations)
            finally:
                await end_tasks({pruning})


async def _prune(sessions: Sessions) -> None:
    while True:
        # Not all workers at once, and not while they start.
        await asyncio.sleep(_PRUNE_EVERY * random.uniform(0.5, 1.5))  # noqa: S311 - not a secret
        try:
            await sessions.prune()
        except StoreError as error:
            _log.warning("sessions that are over have not been removed: %s", error)
