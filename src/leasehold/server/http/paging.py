"""Pages of a list: ``limit`` items from ``offset`` on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from fastapi import Depends, Query

from leasehold.documents.http.schemas import Told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Select

T = TypeVar("T")
R = TypeVar("R")

Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]


class Page(Told, Generic[T]):
    """A page. ``next_offset`` is null on the last one."""

    items: list[T]
    next_offset: int | None


class PageQuery:
    """The requested page."""

    def __init__(self, limit: Limit = 50, offset: Offset = 0) -> None:
        self.limit = limit
        self.offset = offset

    def apply(self, query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
        """The query for this page and one more row, which tells if there is a next page."""
        return query.limit(self.limit + 1).offset(self.offset)

    def build(self, rows: Sequence[R], show: Callable[[R], T]) -> Page[T]:
        """The page with the rows of that query."""
        has_more = len(rows) > self.limit
        return Page(
            items=[show(each) for each in rows[: self.limit]],
            next_offset=self.offset + self.limit if has_more else None,
        )


AskedPage = Annotated[PageQuery, Depends()]
"""``async def endpoint(page: AskedPage)``."""
