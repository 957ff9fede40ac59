"""Logins, kept alive by refresh tokens that are valid once each.

A refresh token that is used twice may have been stolen, so it ends its whole login. But for a short while after its
use it gets the same successor again: two tabs of one browser share a cookie and may refresh at the same moment, and a
lost response must not end a login. That is safe because the successor is computed from the token and a key of the
server, so there is only one chain of tokens: a thief is detected when that successor is used twice.
"""

from __future__ import annotations

import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, or_, select, update

from leasehold.errors import InProgress, NotSignedIn
from leasehold.server.auth.users import lock_account
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import LoginRow, RefreshTokenRow, UserRow, new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import ColumnElement, Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.http.paging import PageQuery

GRACE = 30.0
"""Seconds in which a used refresh token gets its successor again."""

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class ActiveLogin:
    """A login, its user, and the refresh token that keeps it alive until ``expires_at``.

    The life of an access token counts from ``seen_at``, when the login was known to be alive. So a token that is issued
    late, after a logout, does not outlive the record of that logout.
    """

    login_id: str
    user: UserRow = field(repr=False)
    seen_at: float
    expires_at: float
    refresh_token: str = field(repr=False)


class Logins:
    """The logins in the database, with the hashes of their refresh tokens."""

    def __init__(
        self,
        database: async_sessionmaker[AsyncSession],
        key: bytes,
        *,
        days: float = 14,
        at_most_days: float = 90,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._key = key
        self._seconds = days * _DAY
        self._most_seconds = at_most_days * _DAY
        self._clock = clock

    async def start(self, user: UserRow) -> ActiveLogin:
        """Start a login of the user; `NotSignedIn` if the password has changed since ``user`` was read."""
        now = self._clock()
        until = now + min(self._seconds, self._most_seconds)
        login_id = new_id()
        token = f"{login_id}.{secrets.token_urlsafe(32)}"
        async with writing(self._database) as db:
            if await lock_account(db, user.id) != user.password_hash:
                raise NotSignedIn("the password has just been changed: sign in again")
            db.add(LoginRow(id=login_id, user_id=user.id, created_at=now, expires_at=until))
            await db.flush()  # the token refers to it
            db.add(_row(token, login_id, now, until))
        return ActiveLogin(login_id, user, now, until, token)

    async def refresh(self, token: str) -> ActiveLogin | str:
        """Keep the token's login alive and return it with its next token; or the id of the login that this ended.

        A login ends if the token was used before. Raises `NotSignedIn` if the token is unknown or the login is over,
        and `InProgress` if both it and its successor were used just now: the browser has a newer one already, and
        sends that with a retry. If the outcome is unknown, retry with the same token.
        """
        now = self._clock()
        async with writing(self._database) as db:
            used, login, user = await _find(db, token, now)
            following = self._successor(token, login.id)
            ends_at = login.created_at + self._most_seconds
            if now >= ends_at:
                raise _login_has_ended()
            if used.used_at is None:
                used.used_at = now
                login.expires_at = until = min(now + self._seconds, ends_at)
                db.add(_row(following, login.id, now, until))
            elif now < used.used_at + GRACE:
                until = await _unused_until(db, following)
            else:
                login.ended_at = now
                return login.id
        return ActiveLogin(login.id, user, now, until, following)

    async def login_of(self, token: str) -> str | None:
        """The id of the login that the token was issued for, used or not; None if it is not ours."""
        query = select(RefreshTokenRow.session_id).where(RefreshTokenRow.hash == _hash(token))
        async with reading(self._database) as db:
            return await db.scalar(query)

    async def of(self, user_id: str, *, page: PageQuery) -> Sequence[Row[LoginRow, float]]:
        """The user's logins that are alive, newest first, each with the instant of its last refresh."""
        refreshed = (
            select(RefreshTokenRow.session_id, func.max(RefreshTokenRow.issued_at).label("at"))
            .group_by(RefreshTokenRow.session_id)
            .join(LoginRow, LoginRow.id == RefreshTokenRow.session_id)
            .where(LoginRow.user_id == user_id)
            .subquery()
        )
        wanted = (
            select(LoginRow, refreshed.c.at)
            .join(refreshed, refreshed.c.session_id == LoginRow.id)
            .where(*_is_alive(user_id, self._clock()))
            .order_by(LoginRow.created_at.desc(), LoginRow.id)
        )
        async with reading(self._database) as db:
            return (await db.execute(page.apply(wanted))).all()

    async def end_of(self, user_id: str, *, only: str | None = None, but: str | None = None) -> list[str]:
        """End the user's logins: ``only`` one, or all ``but`` one; the ids of those that this ended."""
        async with writing(self._database) as db:
            return await end_logins(db, user_id, self._clock(), only=only, but=but)

    async def end(self, login_id: str) -> None:
        """End the login: its refresh tokens are refused from now on. Repeating this is harmless."""
        async with writing(self._database) as db:
            await db.execute(
                update(LoginRow)
                .where(LoginRow.id == login_id, LoginRow.ended_at.is_(None))
                .values(ended_at=self._clock())
            )

    async def prune(self) -> None:
        """Delete logins that ended so long ago that none of their tokens can be valid."""
        now = self._clock()
        async with writing(self._database) as db:
            await db.execute(delete(RefreshTokenRow).where(RefreshTokenRow.expires_at < now))
            # Two days, which is longer than any access token lives: see `Revocations`.
            long_ago = now - 2 * _DAY
            await db.execute(
                delete(LoginRow).where(or_(LoginRow.expires_at < long_ago, LoginRow.ended_at < long_ago))
            )

    def _successor(self, token: str, login_id: str) -> str:
        digest = hmac.digest(self._key, token.encode(), "sha256")
        return f"{login_id}.{urlsafe_b64encode(digest).decode().rstrip('=')}"


async def end_logins(
    db: AsyncSession, user_id: str, now: float, *, only: str | None = None, but: str | None = None
) -> list[str]:
    """End the user's logins, within a transaction; the ids of those that this ended."""
    ended = update(LoginRow).where(*_is_alive(user_id, now)).values(ended_at=now).returning(LoginRow.id)
    if only is not None:
        ended = ended.where(LoginRow.id == only)
    if but is not None:
        ended = ended.where(LoginRow.id != but)
    return list(await db.scalars(ended))


def _is_alive(user_id: str, now: float) -> tuple[ColumnElement[bool], ...]:
    return LoginRow.user_id == user_id, LoginRow.ended_at.is_(None), LoginRow.expires_at > now


async def _find(db: AsyncSession, token: str, now: float) -> tuple[RefreshTokenRow, LoginRow, UserRow]:
    """The token, locked until the transaction ends, with its active login and user."""
    found = (
        await db.execute(
            select(RefreshTokenRow, LoginRow, UserRow)
            .join(LoginRow, RefreshTokenRow.session_id == LoginRow.id)
            .join(UserRow, LoginRow.user_id == UserRow.id)
            .where(RefreshTokenRow.hash == _hash(token), LoginRow.ended_at.is_(None))
            .with_for_update(of=RefreshTokenRow)
        )
    ).one_or_none()
    if found is None or now >= found[0].expires_at:
        raise _login_has_ended()
    return found[0], found[1], found[2]


def _login_has_ended() -> NotSignedIn:
    return NotSignedIn("the login has ended: sign in again")


async def _unused_until(db: AsyncSession, token: str) -> float:
    row = await db.get(RefreshTokenRow, _hash(token))
    if row is None or row.used_at is not None:
        raise InProgress("another request is refreshing this login: try again", retry_after=1)
    return row.expires_at


def _row(token: str, login_id: str, now: float, until: float) -> RefreshTokenRow:
    return RefreshTokenRow(hash=_hash(token), session_id=login_id, issued_at=now, expires_at=until)


def _hash(token: str) -> str:
    return sha256(token.encode(errors="replace")).hexdigest()
