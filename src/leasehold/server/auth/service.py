"""The authentication service of one worker: accounts, logins and tokens."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from argon2 import PasswordHasher

from leasehold.errors import NotAllowed, NotSignedIn, StoreError
from leasehold.runtime.asyncio_runtime import end_tasks
from leasehold.server.auth.account_changes import change_password, delete_account
from leasehold.server.auth.csrf import CsrfTokens
from leasehold.server.auth.known_devices import KnownDevices
from leasehold.server.auth.logins import ActiveLogin, Logins
from leasehold.server.auth.password_check import PasswordCheck
from leasehold.server.auth.passwords import DemoPasswords, Passwords
from leasehold.server.auth.revocations import Revocations
from leasehold.server.auth.tokens import Tokens
from leasehold.server.auth.users import Users

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.client import Client
    from leasehold.documents.ports import Principal
    from leasehold.server.auth.signing_keys import SigningKeys
    from leasehold.server.db.models import UserRow
    from leasehold.server.http.rate_limiter import RateLimiter
    from leasehold.server.settings import Settings

_PRUNE_EVERY = 3600.0

_log = logging.getLogger("leasehold.server")


@dataclass(frozen=True, slots=True)
class AuthService:
    """Registers users, logs them in and out, and authenticates their tokens."""

    database: async_sessionmaker[AsyncSession]
    users: Users
    passwords: Passwords
    logins: Logins
    tokens: Tokens
    csrf: CsrfTokens
    revocations: Revocations
    devices: KnownDevices
    password_check: PasswordCheck

    async def register(self, *, email: str, password: str, display_name: str) -> UserRow:
        """Create a user; `leasehold.AlreadyExists` if the address is taken."""
        return await self.users.add(
            email=email, display_name=display_name, password_hash=await self.passwords.hash(password)
        )

    async def log_in(self, *, email: str, password: str, device: str | None, address: str) -> ActiveLogin:
        """Start a login; `NotSignedIn` for an unknown user and for a wrong password alike.

        ``device`` is the cookie of a `KnownDevices`; ``address`` is logged.
        """
        user = await self.users.with_email(email)
        known = self.devices.id_of(device, user)
        counted_for = f"account {email}" if known is None else f"device {known}"
        if (
            not await self.password_check.is_right(
                user, password, account=email, counted_for=counted_for, address=address
            )
            or user is None
        ):
            raise NotSignedIn("the address or the password is wrong")
        if self.passwords.is_outdated(user.password_hash):
            password_hash = await self.passwords.hash(password)
            if not await self.users.replace_hash(user, password_hash):
                # Another request has replaced it: compare with that one.
                return await self.log_in(email=email, password=password, device=device, address=address)
            user.password_hash = password_hash
        return await self.logins.start(user)

    async def change_password(self, principal: Principal, *, current: str, new: str, address: str) -> UserRow:
        """Replace the password and end the user's other logins. `NotAllowed` if ``current`` is wrong."""
        user = await self._user_with_password(principal, current, address)
        password_hash = self.passwords.like(user.password_hash, await self.passwords.hash(new))
        ended = await change_password(self.database, user, password_hash, but=principal.session_id)
        user.password_hash = password_hash
        _log.info("the password of the account %s was changed; ended logins: %d", user.id, len(ended))
        await self.revocations.add(*ended)
        return user

    async def delete_account(self, principal: Principal, *, password: str, address: str) -> None:
        """Delete the account; see `delete_account`. `NotAllowed` if the password is wrong."""
        user = await self._user_with_password(principal, password, address)
        ended = await delete_account(self.database, user)
        _log.info("the account %s was deleted; ended logins: %d", user.id, len(ended))
        await self.revocations.add(*ended)

    async def end_logins(self, user_id: str, *, only: str | None = None, but: str | None = None) -> int:
        """End the user's logins: ``only`` one, or all ``but`` one; the number of those that this ended."""
        ended = await self.logins.end_of(user_id, only=only, but=but)
        await self.revocations.add(*ended)
        return len(ended)

    async def _user_with_password(self, principal: Principal, password: str, address: str) -> UserRow:
        user = await self.users.get(principal.user_id)
        if not await self.password_check.is_right(
            user,
            password,
            account=user.email,
            counted_for=f"login {principal.session_id}",
            address=address,
        ):
            raise NotAllowed("the password is wrong")
        return user

    async def refresh(self, refresh_token: str) -> ActiveLogin:
        """Keep the login alive. `NotSignedIn` if it has ended; see `Logins.refresh`."""
        outcome = await self.logins.refresh(refresh_token)
        if isinstance(outcome, str):
            _log.warning("login %s has ended: its refresh token was used twice", outcome)
            await self.revocations.add(outcome)
            raise NotSignedIn("the login has ended: sign in again")
        return outcome

    async def log_out(self, login_id: str | None) -> None:
        """End the login, if there is one: its tokens are refused here from now on, and by other workers soon."""
        if login_id is not None:
            await self.logins.end(login_id)
            await self.revocations.add(login_id)

    async def log_out_with(self, *, refresh_token: str | None, access_token: str | None) -> None:
        """End the login of each token, also of an expired one. `NotSignedIn` if none of them is ours."""
        if refresh_token is not None:
            await self.log_out(await self.logins.login_of(refresh_token))
        elif access_token is None:
            raise NotSignedIn("there is no token to log out with")
        if access_token is None:
            return
        try:
            login_id = self.tokens.login_of(access_token)
        except NotSignedIn:
            if refresh_token is None:
                raise
        else:
            await self.log_out(login_id)

    def principal_of(self, access_token: str) -> Principal:
        """The user of the token; `NotSignedIn` if it is invalid or expired, or its login has ended."""
        principal = self.tokens.verify(access_token)
        if self.revocations.is_ended(principal.session_id):
            raise NotSignedIn("the login has ended: sign in again")
        return principal


@asynccontextmanager
async def open_auth(
    database: async_sessionmaker[AsyncSession],
    client: Client,
    *,
    keys: SigningKeys,
    rate_limiter: RateLimiter,
    settings: Settings,
) -> AsyncGenerator[AuthService]:
    """The service for the life of a worker. ``client`` is connected to the store that all workers share."""
    logins = Logins(
        database,
        keys.of("refresh tokens"),
        days=settings.refresh_token_days,
        at_most_days=settings.login_days,
    )
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
        pruning = asyncio.get_running_loop().create_task(_prune(logins), name="leasehold-pruning")
        with closing(DemoPasswords(hasher) if settings.demo else Passwords(hasher)) as passwords:
            try:
                yield AuthService(
                    database,
                    Users(database),
                    passwords,
                    logins,
                    tokens,
                    csrf,
                    revocations,
                    KnownDevices(keys.of("known devices")),
                    PasswordCheck(passwords, rate_limiter),
                )
            finally:
                await end_tasks({pruning})


async def _prune(logins: Logins) -> None:
    while True:
        # At random times: not in all workers at once, and not while they start.
        await asyncio.sleep(_PRUNE_EVERY * random.uniform(0.5, 1.5))  # noqa: S311 - not a secret
        try:
            await logins.prune()
        except StoreError as error:
            _log.warning("ended logins could not be deleted: %s", error)
