"""Lists come in pages: ``limit`` of them from ``offset`` on."""

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
    """``next_offset`` is null on the last page."""

    items: list[T]
    next_offset: int | None


class Slice:
    """Which page is asked for."""

    def __init__(self, limit: Limit = 50, offset: Offset = 0) -> None:
        self.limit = limit
        self.offset = offset

    def of(self, query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
        """The query for this page. It asks for one more, to know whether there are any."""
        return query.limit(self.limit + 1).offset(self.offset)

    def page(self, found: Sequence[R], show: Callable[[R], T]) -> Page[T]:
        """The page, from what that query has found."""
        there_is_more = len(found) > self.limit
        return Page(
            items=[show(each) for each in found[: self.limit]],
            next_offset=self.offset + self.limit if there_is_more else None,
        )


Asks = Annotated[Slice, Depends()]
"""``async def endpoint(which: Asks)``."""
