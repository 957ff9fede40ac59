"""Guards rows with SQLAlchemy 2, sync and async: a row refuses an older fence than it has seen.

::

    class Deal(Fenced, Base): ...

    async with locks.lock("deal:42") as lease, sessions.begin() as session:
        deal = await load_for_update(session, Deal, 42, lease)
        deal.amount -= 10

    await guarded_update(session, Deal, 42, lease.fence, {"state": "paid"})

`load_for_update` writes the fence into the row before it reads it. From then on an older holder cannot write, so
the data is still current when the newer holder writes: comparing fences only at the write would let the older one
write in between, and its update would be lost.

A fence protects the transaction in which it was presented: the row stays locked until its end, so objects that
were loaded here may be changed and flushed in it. In a later transaction, load again or use `guarded_update`.
After any refusal roll back, as the ``with`` above does.

On PostgreSQL this works at every isolation level. From REPEATABLE READ on, the loser of two concurrent
transactions gets SQLAlchemy's serialization failure, and is refused when it tries again. On SQLite the second of
two writers waits for the first, up to the driver's ``timeout`` (5 s), and then gets "database is locked": nothing
was changed, try again. Make `load_for_update` the first statement of its transaction, because a transaction that
has read cannot always become one that writes. A holder that is paused in the middle of its transaction delays
others but does not corrupt data: PostgreSQL's ``idle_in_transaction_session_timeout`` limits the delay.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from leasehold.errors import InvalidRequest, StaleFence
from leasehold.extras import requires_extra
from leasehold.operations.guards.presented_fence import PresentedFence, present_fence

with requires_extra(__name__, "operations"):
    from sqlalchemy import BigInteger, Column, inspect, select, text, update
    from sqlalchemy.exc import NoResultFound
    from sqlalchemy.orm import Mapped, Mapper, Session, mapped_column, object_mapper, scoped_session
    from sqlalchemy.types import TypeDecorator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import CursorResult
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
    from sqlalchemy.orm.interfaces import ORMOption

    from leasehold.core.leases.lease import LeaseState
    from leasehold.core.replies import Mode

M = TypeVar("M")
R = TypeVar("R")


class Fenced:
    """A mixin for mapped classes: the column ``fence``, the newest fence that the row has seen.

    Rows from before the column was added count as never locked: the database's default is also 0.
    """

    fence: Mapped[int] = mapped_column(BigInteger, default=0, server_default=text("0"), nullable=False)


@overload
def guarded_update(
    session: Session | scoped_session[Any],
    model: type[Any],
    ident: Any,
    fence: int | LeaseState,
    values: Mapping[str, Any],
    *,
    mode: Mode | None = None,
) -> None: ...
@overload
def guarded_update(
    session: AsyncSession | async_scoped_session[Any],
    model: type[Any],
    ident: Any,
    fence: int | LeaseState,
    values: Mapping[str, Any],
    *,
    mode: Mode | None = None,
) -> Awaitable[None]: ...
def guarded_update(
    session: Any,
    model: type[Any],
    ident: Any,
    fence: int | LeaseState,
    values: Mapping[str, Any],
    *,
    mode: Mode | None = None,
) -> Awaitable[None] | None:
    """Set ``values`` in the row of ``model`` with the key ``ident``, unless it has seen a newer fence.

    On return the row has the values and the fence, in the session's transaction, and so has its object if the
    session knows it. ``values`` are named as the attributes are, and may be expressions (``Deal.amount - 10``).
    ``ident`` is a primary key as for ``session.get``: a value, a tuple or a mapping. An equal fence is accepted: the
    same holder writes again. ``fence`` is a lease or its number; a lease that has ended raises `LeaseLost`.
    With ``mode="shared"`` (or a shared lease) the fence is compared but not registered.

    Raises `StaleFence` if the row has seen a newer one, SQLAlchemy's ``NoResultFound`` if there is no such row,
    `InvalidRequest` if the arguments are wrong. As with any UPDATE statement, no validator runs and no
    ``version_id`` is counted.
    """
    return _run(session, lambda own: _update(own, model, ident, fence, values, mode))


@overload
def load_for_update(
    session: Session | scoped_session[Any],
    model: type[M],
    ident: Any,
    fence: int | LeaseState,
    *,
    mode: Mode | None = None,
    options: Sequence[ORMOption] = (),
) -> M: ...
@overload
def load_for_update(
    session: AsyncSession | async_scoped_session[Any],
    model: type[M],
    ident: Any,
    fence: int | LeaseState,
    *,
    mode: Mode | None = None,
    options: Sequence[ORMOption] = (),
) -> Awaitable[M]: ...
def load_for_update(
    session: Any,
    model: type[M],
    ident: Any,
    fence: int | LeaseState,
    *,
    mode: Mode | None = None,
    options: Sequence[ORMOption] = (),
) -> M | Awaitable[M]:
    """The object of ``model`` with the key ``ident``, read after the fence has been registered in the row.

    Once the transaction is committed, older fences cannot write to the row. Until its end the row is locked, so
    changes to the object that are flushed in it are guarded as well. With ``mode="shared"`` the fence is compared
    and the row locked, but nothing is registered: an older writer can write again after this transaction.
    ``options`` are those of ``session.get``. Raises what `guarded_update` raises.
    """
    return _run(session, lambda own: _load(own, model, ident, fence, mode, options))


def _run(session: Any, work: Callable[[Session], R]) -> R | Awaitable[R]:
    """Run ``work`` on the session, or on the one inside an asynchronous session."""
    # The import needs greenlet, which is optional; a caller with an AsyncSession has imported it already.
    asynchronous: Any = sys.modules.get("sqlalchemy.ext.asyncio")
    if isinstance(session, scoped_session) or (
        asynchronous and isinstance(session, asynchronous.async_scoped_session)
    ):
        session = cast("Any", session)()
    if isinstance(session, Session):
        return work(session)
    if asynchronous and isinstance(session, asynchronous.AsyncSession):
        return cast("AsyncSession", session).run_sync(work)
    raise InvalidRequest(f"session must be a SQLAlchemy Session or AsyncSession, not {_type_name(session)}")


def _update(
    session: Session,
    model: type[Any],
    ident: Any,
    fence: int | LeaseState,
    values: Mapping[str, Any],
    mode: Mode | None,
) -> None:
    row = _Row(model, ident)
    row.check_values(values)
    presented = present_fence(fence, mode)
    row.refuse_pending_changes(session)
    row.write(session, presented, values)
    row.refresh(session, values)


def _load(
    session: Session,
    model: type[M],
    ident: Any,
    fence: int | LeaseState,
    mode: Mode | None,
    options: Sequence[ORMOption],
) -> M:
    row = _Row(model, ident)
    presented = present_fence(fence, mode)
    row.refuse_pending_changes(session)
    row.write(session, presented, {})
    found = session.get(model, row.key, options=options, populate_existing=True)
    if found is None:
        raise row.not_found()
    return found


class _Row:
    """One row of a mapped class, by its key; with joined inheritance, its rows in several tables."""

    def __init__(self, model: type[Any], ident: Any) -> None:
        mapper: object = inspect(model, raiseerr=False)
        if not isinstance(mapper, Mapper):
            raise InvalidRequest(f"{model!r} is not a mapped class")
        self.mapper = cast("Mapper[Any]", mapper)
        self.name = model.__name__
        self.columns: dict[str, Column[Any]] = {
            name: attribute.columns[0]
            for name, attribute in self.mapper.column_attrs.items()
            if isinstance(attribute.columns[0], Column)
        }
        self._check_fence()
        self.key = self._read_key(ident)

    def _check_fence(self) -> None:
        column = self.columns.get("fence")
        if column is None:
            raise InvalidRequest(f"{self.name} has no column fence; give it one with the mixin Fenced")
        if not isinstance(column.type, BigInteger) or column.nullable:
            raise InvalidRequest(f"{self.name}.fence must be a BigInteger that is not null, as in Fenced")

    def _read_key(self, ident: Any) -> dict[str, Any]:
        """The key by the names of its attributes, in their order."""
        names = [self.mapper.get_property_by_column(column).key for column in self.mapper.primary_key]
        if isinstance(ident, Mapping):
            given = dict(cast("Mapping[str, Any]", ident))
        else:
            parts = cast("Sequence[Any]", ident) if isinstance(ident, tuple | list) else (ident,)
            given = dict(zip(names, parts, strict=False)) if len(parts) == len(names) else {}
        if set(given) != set(names):
            raise InvalidRequest(f"the key of {self.name} is ({', '.join(names)}), not {ident!r}")
        for name, column in zip(names, self.mapper.primary_key, strict=True):
            self._check_key_part(name, column, given[name])
        return {name: given[name] for name in names}

    def _check_key_part(self, name: str, column: Any, value: Any) -> None:
        # SQLite finds 42 for "42", but the session would not find its own object under that key.
        if isinstance(column.type, TypeDecorator):
            return
        try:
            kind = column.type.python_type
        except NotImplementedError:
            return
        if kind in {int, str} and not isinstance(value, kind):
            raise InvalidRequest(f"{self.name}.{name} is {kind.__name__}, not {_type_name(value)} {value!r}")

    def check_values(self, values: Mapping[str, Any]) -> None:
        """Refuse values that are not ordinary columns."""
        if not isinstance(values, Mapping) or not values:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest("values must be a mapping with at least one column")
        for name in values:
            if name == "fence":
                raise InvalidRequest("values must not set fence: the guard sets it")
            if name in self.key:
                raise InvalidRequest(f"values must not change the key ({name})")
            if name not in self.columns:
                raise InvalidRequest(f"{self.name} has no column {name!r}")

    def refuse_pending_changes(self, session: Session) -> None:
        """Refuse unflushed changes from before the fence was presented: they may rest on stale data, and go first."""
        known = self._known(session)
        if known is not None and session.is_modified(known, include_collections=False):
            raise InvalidRequest(
                f"{self.name} {self._show_key()} has unflushed changes; call the guard before changing the object"
            )

    def write(self, session: Session, fence: PresentedFence, values: Mapping[str, Any]) -> None:
        """Compare and register the fence and set ``values``, in one statement for each table that they are in."""
        owner = self._owner("fence")
        by_owner: dict[Mapper[Any], dict[str, Any]] = {owner: {}}
        for name, value in values.items():
            by_owner.setdefault(self._owner(name), {})[name] = value
        if not values:
            # Registering must not change other columns, such as the time of the last change.
            kept = [n for n, c in self.columns.items() if c.onupdate is not None and self._owner(n) is owner]
            by_owner[owner] = {name: getattr(owner.class_, name) for name in kept}
        column = owner.class_.fence
        by_owner[owner]["fence"] = fence.number if fence.registers else column
        for mapper, changes in by_owner.items():
            statement = update(mapper.class_).where(*self._is_key(mapper)).values(changes)
            if mapper is owner:
                statement = statement.where(column <= fence.number)
            done = session.execute(statement, execution_options={"synchronize_session": False})
            if cast("CursorResult[Any]", done).rowcount == 0:
                raise self._refusal(session, fence.number)

    def _refusal(self, session: Session, given: int) -> Exception:
        owner = self._owner("fence")
        seen = session.scalar(select(owner.class_.fence).where(*self._is_key(owner)))
        # A fence that is not newer belongs to a row that was just inserted, or that may not be updated.
        return self.not_found() if seen is None or seen <= given else StaleFence(seen=seen, given=given)

    def not_found(self) -> NoResultFound:
        """The error for a missing row."""
        return NoResultFound(f"there is no {self.name} {self._show_key()} to update")

    def refresh(self, session: Session, values: Mapping[str, Any]) -> None:
        """Refresh the session's own object now, because an asynchronous session cannot load it lazily."""
        known = self._known(session)
        if known is None:
            return
        mapper = object_mapper(known)
        changed = {self.columns[name] for name in values}
        names = [name for name in mapper.column_attrs.keys() if name in known.__dict__]  # noqa: SIM118 - no dict
        names += [
            name
            for name, relation in mapper.relationships.items()
            if name in known.__dict__ and relation.local_columns & changed
        ]
        if names:
            session.refresh(known, names)

    def _known(self, session: Session) -> Any | None:
        return session.identity_map.get(self.mapper.identity_key_from_primary_key(tuple(self.key.values())))

    def _owner(self, name: str) -> Mapper[Any]:
        """The class whose table has the attribute's column; the nearest one in the hierarchy."""
        table = self.columns[name].table
        return next(mapper for mapper in self.mapper.iterate_to_root() if mapper.local_table is table)

    def _is_key(self, mapper: Mapper[Any]) -> list[Any]:
        return [getattr(mapper.class_, name) == value for name, value in self.key.items()]

    def _show_key(self) -> str:
        parts = list(self.key.values())
        return repr(parts[0] if len(parts) == 1 else tuple(parts))


def _type_name(value: object) -> str:
    return type(value).__name__
