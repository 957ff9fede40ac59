"""Queries of application members, and the announcement of their permission changes. At least one member is an owner."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, insert, select, update

from leasehold.errors import AlreadyExists, NotFound, StoreError
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import ApplicationRow, MemberRow, UserRow
from leasehold.server.http.fields import is_id
from leasehold.server.teams.access import require_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.ports import Role
    from leasehold.server.auth.dependencies import Caller
    from leasehold.server.http.paging import PageQuery
    from leasehold.server.services import Services

_log = logging.getLogger("leasehold.server")

_MEMBERS = select(
    MemberRow.user_id, MemberRow.role, MemberRow.created_at, UserRow.display_name, UserRow.email
).join(UserRow, UserRow.id == MemberRow.user_id)


class Members:
    """Every change locks the application's row, so that two owners who leave at once do so one after the other.

    Methods raise `NotFound` for an unknown application, and `NotAllowed` if ``by`` has too low a role in it.
    """

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def of(
        self, application_id: str, *, by: Caller, page: PageQuery
    ) -> tuple[Role, Sequence[Row[*tuple[Any, ...]]]]:
        """The caller's role, and the members by name."""
        wanted = _MEMBERS.where(MemberRow.application_id == application_id).order_by(
            UserRow.display_name, UserRow.id
        )
        async with reading(self._database) as db:
            role = await require_role(db, application_id, by)
            return role, (await db.execute(page.apply(wanted))).all()

    async def ids_of(self, application_id: str) -> list[str]:
        """The ids of all members."""
        wanted = select(MemberRow.user_id).where(MemberRow.application_id == application_id)
        async with reading(self._database) as db:
            return list(await db.scalars(wanted))

    async def add(self, application_id: str, *, email: str, role: Role, by: Caller) -> Row[*tuple[Any, ...]]:
        """Make a user a member. `NotFound` for an unknown address, `AlreadyExists` for a member."""
        async with writing(self._database) as db:
            await _lock(db, application_id)
            await require_role(db, application_id, by)
            # Locked, so that the account is not deleted before it is a member.
            wanted = select(UserRow.id).where(UserRow.email == email).with_for_update(key_share=True)
            user_id = await db.scalar(wanted)
            if user_id is None:
                raise NotFound("no user is registered with this address")
            if await _find(db, application_id, user_id) is not None:
                raise AlreadyExists("this user is a member already")
            new = {"application_id": application_id, "user_id": user_id, "role": role}
            await db.execute(insert(MemberRow).values(**new, created_at=time.time()))
            return await _get(db, application_id, user_id)

    async def change(
        self, application_id: str, user_id: str, *, role: Role, by: Caller
    ) -> Row[*tuple[Any, ...]]:
        """Give a member another role. `AlreadyExists` for the last owner."""
        async with writing(self._database) as db:
            await _lock(db, application_id)
            await require_role(db, application_id, by)
            member = await _get(db, application_id, user_id)
            if role != "owner":
                await _refuse_last_owner(db, application_id, member)
            await db.execute(update(MemberRow).where(*_is(application_id, user_id)).values(role=role))
            return await _get(db, application_id, user_id)

    async def remove(self, application_id: str, user_id: str, *, by: Caller) -> None:
        """End a membership. `AlreadyExists` for the last owner."""
        async with writing(self._database) as db:
            await _lock(db, application_id)
            await require_role(db, application_id, by)
            member = await _get(db, application_id, user_id)
            await _refuse_last_owner(db, application_id, member)
            await db.execute(delete(MemberRow).where(*_is(application_id, user_id)))


async def announce_permission_change(services: Services, user_ids: Iterable[str]) -> None:
    """Tell the sockets of all workers, after the change. Without it they check again at every message only."""
    for user_id in user_ids:
        try:
            await services.live.rights_changed(user_id)
        except StoreError as error:
            # The others are announced all the same, and this worker's own sockets know of this one in any case.
            _log.warning("a permission change was not announced to every worker: %s", error)


async def _lock(db: AsyncSession, application_id: str) -> None:
    if is_id(application_id):
        await db.execute(
            select(ApplicationRow.id).where(ApplicationRow.id == application_id).with_for_update()
        )


async def _refuse_last_owner(db: AsyncSession, application_id: str, member: Row[*tuple[Any, ...]]) -> None:
    owners = select(func.count()).where(MemberRow.application_id == application_id, MemberRow.role == "owner")
    if member.role == "owner" and await db.scalar(owners) == 1:
        raise AlreadyExists("an application needs an owner: this is the last one")


async def _get(db: AsyncSession, application_id: str, user_id: str) -> Row[*tuple[Any, ...]]:
    member = await _find(db, application_id, user_id)
    if member is None:
        raise NotFound("member not found")
    return member


async def _find(db: AsyncSession, application_id: str, user_id: str) -> Row[*tuple[Any, ...]] | None:
    if not is_id(user_id):
        return None
    return (await db.execute(_MEMBERS.where(*_is(application_id, user_id)))).one_or_none()


def _is(application_id: str, user_id: str) -> tuple[Any, ...]:
    return MemberRow.application_id == application_id, MemberRow.user_id == user_id
