"""Members of applications. There is always an owner among them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select, update

from leasehold.errors import AlreadyExists, NotFound
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import ApplicationRow, MemberRow, UserRow
from leasehold.server.ids import is_id
from leasehold.server.teams.access import require_role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.ports import Role
    from leasehold.server.http.paging import Slice

_MEMBERS = select(
    MemberRow.user_id, MemberRow.role, MemberRow.created_at, UserRow.display_name, UserRow.email
).join(UserRow, UserRow.id == MemberRow.user_id)


class Members:
    """Every change holds the application's row, so that two owners who leave at once do so one after the other.

    Each method raises `NotFound` if there is no such application, and `NotAllowed` if the role of ``by`` is too little.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def of(
        self, application_id: str, *, by: str, which: Slice
    ) -> tuple[Role, Sequence[Row[*tuple[Any, ...]]]]:
        """For members: the role of ``by``, and everybody's."""
        wanted = _MEMBERS.where(MemberRow.application_id == application_id).order_by(
            UserRow.display_name, UserRow.id
        )
        async with reading(self._sessions) as session:
            role = await require_role(session, by, application_id, "viewer")
            return role, (await session.execute(which.of(wanted))).all()

    async def ids_of(self, application_id: str) -> list[str]:
        """Everybody's id."""
        wanted = select(MemberRow.user_id).where(MemberRow.application_id == application_id)
        async with reading(self._sessions) as session:
            return list(await session.scalars(wanted))

    async def add(self, application_id: str, *, email: str, role: Role, by: str) -> Row[*tuple[Any, ...]]:
        """For owners. `NotFound` if nobody has the address, `AlreadyExists` if they are a member."""
        async with writing(self._sessions) as session:
            await _lock(session, application_id)
            await require_role(session, by, application_id, "owner")
            user_id = await session.scalar(select(UserRow.id).where(UserRow.email == email))
            if user_id is None:
                raise NotFound("nobody is registered with this address")
            if await _find(session, application_id, user_id) is not None:
                raise AlreadyExists("they are a member already")
            new = {"application_id": application_id, "user_id": user_id, "role": role}
            await session.execute(insert(MemberRow).values(**new, created_at=time.time()))
            return await _get(session, application_id, user_id)

    async def change(
        self, application_id: str, user_id: str, *, role: Role, by: str
    ) -> Row[*tuple[Any, ...]]:
        """For owners: another role. `AlreadyExists` if they are the last owner."""
        async with writing(self._sessions) as session:
            await _lock(session, application_id)
            await require_role(session, by, application_id, "owner")
            member = await _get(session, application_id, user_id)
            if role != "owner":
                await _refuse_last_owner(session, application_id, member)
            await session.execute(update(MemberRow).where(*_is(application_id, user_id)).values(role=role))
            return await _get(session, application_id, user_id)

    async def remove(self, application_id: str, user_id: str, *, by: str) -> None:
        """For owners, and for whoever leaves. `AlreadyExists` if they are the last owner."""
        async with writing(self._sessions) as session:
            await _lock(session, application_id)
            await require_role(session, by, application_id, "viewer" if user_id == by else "owner")
            member = await _get(session, application_id, user_id)
            await _refuse_last_owner(session, application_id, member)
            await session.execute(delete(MemberRow).where(*_is(application_id, user_id)))


async def _lock(session: AsyncSession, application_id: str) -> None:
    if is_id(application_id):
        await session.execute(
            select(ApplicationRow.id).where(ApplicationRow.id == application_id).with_for_update()
        )


async def _refuse_last_owner(
    session: AsyncSession, application_id: str, member: Row[*tuple[Any, ...]]
) -> None:
    owners = select(func.count()).where(MemberRow.application_id == application_id, MemberRow.role == "owner")
    if member.role == "owner" and await session.scalar(owners) == 1:
        raise AlreadyExists("an application keeps an owner: this is the only one")


async def _get(session: AsyncSession, application_id: str, user_id: str) -> Row[*tuple[Any, ...]]:
    member = await _find(session, application_id, user_id)
    if member is None:
        raise NotFound("there is no such member")
    return member


async def _find(session: AsyncSession, application_id: str, user_id: str) -> Row[*tuple[Any, ...]] | None:
    if not is_id(user_id):
        return None
    return (await session.execute(_MEMBERS.where(*_is(application_id, user_id)))).one_or_none()


def _is(application_id: str, user_id: str) -> tuple[Any, ...]:
    return MemberRow.application_id == application_id, MemberRow.user_id == user_id
