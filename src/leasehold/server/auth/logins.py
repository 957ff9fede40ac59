"""Signed-in sessions, kept alive by refresh tokens of which each is good once.

A refresh token that comes a second time may be in a thief's hands, so its whole session ends. But for a short while
after its use it gets the same successor again: two tabs of one browser share a cookie and may refresh at the same
moment, and a reply that was lost must not sign anybody out. That is safe because the successor is computed from
the token and a key of the server, so there is only ever one line of tokens: whoever came in that way is found out
when that successor comes a second time.
"""

from __future__ import annotations

import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import delete, or_, select, update

from leasehold.errors import InProgress, NotSignedIn
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import RefreshTokenRow, SessionRow, UserRow, new_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

GRACE = 30.0
"""Seconds in which a used refresh token gets its successor once more."""

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session, whose it is, and the refresh token that keeps it alive until ``expires_at``.

    ``seen_at`` is when the session was known to be alive: an access token counts from then, so that one which is
    made late, after a logout, does not live longer than the memory of that logout.
    """

    session_id: str
    user: UserRow = field(repr=False)
    seen_at: float
    expires_at: float
    refresh_token: str = field(repr=False)


class Sessions:
    """The sessions in the database. Of refresh tokens it keeps the hashes only."""

    def __init__(
        self,
        database: async_sessionmaker[AsyncSession],
        key: bytes,
        *,
        days: float = 14,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._key = key
        self._seconds = days * _DAY
        self._clock = clock

    async def start(self, user: UserRow) -> SignedIn:
        """A new session of the user."""
        now = self._clock()
        until = now + self._seconds
        session_id = new_id()
        token = f"{session_id}.{secrets.token_urlsafe(32)}"
        async with writing(self._database) as database:
            database.add(SessionRow(id=session_id, user_id=user.id, created_at=now, expires_at=until))
            await database.flush()  # the token refers to it
            database.add(_row(token, session_id, now, until))
        return SignedIn(session_id, user, now, until, token)

    async def refresh(self, token: str) -> SignedIn | str:
        """The session of the token, kept alive, with its next token; or the id of the session that it ended.

        It is ended if the token was used before. Raises `NotSignedIn` if the token is unknown or the session is
        over, and `InProgress` if it was used just now and its successor too: the browser has a newer one already,
        and asking again sends that. If the outcome is unknown, ask again with the same token.
        """
        now = self._clock()
        async with writing(self._database) as database:
            used, session, user = await _find(database, token, now)
            following = self._successor(token, session.id)
            if used.used_at is None:
                used.used_at = now
                session.expires_at = until = now + self._seconds
                database.add(_row(following, session.id, now, until))
            elif now < used.used_at + GRACE:
                until = await _unused_until(database, following)
            else:
                session.ended_at = now
                return session.id
        return SignedIn(session.id, user, now, until, following)

    async def session_of(self, token: str) -> str | None:
        """The id of the session that the token was made for, used or not; None if we did not make it."""
        query = select(RefreshTokenRow.session_id).where(RefreshTokenRow.hash == _hash(token))
        async with reading(self._database) as database:
            return await database.scalar(query)

    async def end(self, session_id: str) -> None:
        """From now on its refresh tokens are refused. Ending it twice is harmless."""
        async with writing(self._database) as database:
            await database.execute(
                update(SessionRow)
                .where(SessionRow.id == session_id, SessionRow.ended_at.is_(None))
                .values(ended_at=self._clock())
            )

    async def prune(self) -> None:
        """Forget what has been over for so long that no token of it can be of use to anybody."""
        now = self._clock()
        async with writing(self._database) as database:
            await database.execute(delete(RefreshTokenRow).where(RefreshTokenRow.expires_at < now))
            # Two days: longer than any access token, see `Revocations`.
            long_ago = now - 2 * _DAY
            await database.execute(
                delete(SessionRow).where(
                    or_(SessionRow.expires_at < long_ago, SessionRow.ended_at < long_ago)
                )
            )

    def _successor(self, token: str, session_id: str) -> str:
        digest = hmac.digest(self._key, token.encode(), "sha256")
        return f"{session_id}.{urlsafe_b64encode(digest).decode().rstrip('=')}"


async def _find(
    database: AsyncSession, token: str, now: float
) -> tuple[RefreshTokenRow, SessionRow, UserRow]:
    """The token, for us alone until the transaction ends, with a session that is not over."""
    found = (
        await database.execute(
            select(RefreshTokenRow, SessionRow, UserRow)
            .join(SessionRow, RefreshTokenRow.session_id == SessionRow.id)
            .join(UserRow, SessionRow.user_id == UserRow.id)
            .where(RefreshTokenRow.hash == _hash(token), SessionRow.ended_at.is_(None))
            .with_for_update(of=RefreshTokenRow)
        )
    ).one_or_none()
    if found is None or now >= found[0].expires_at:
        raise NotSignedIn("the session is over: sign in again")
    return found[0], found[1], found[2]


async def _unused_until(database: AsyncSession, token: str) -> float:
    row = await database.get(RefreshTokenRow, _hash(token))
    if row is None or row.used_at is not None:
        raise InProgress(
            "the session is being refreshed by somebody else, another tab perhaps", retry_after=1
        )
    return row.expires_at


def _row(token: str, session_id: str, now: float, until: float) -> RefreshTokenRow:
    return RefreshTokenRow(hash=_hash(token), session_id=session_id, issued_at=now, expires_at=until)


def _hash(token: str) -> str:
    return sha256(token.encode(errors="replace")).hexdigest()
