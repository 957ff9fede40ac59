"""A client of either kind behind one interface, for tests that are written once."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold import blocking
from tests.support.threads import InThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

both = pytest.mark.parametrize("kind", ["async", "blocking"])


@asynccontextmanager
async def client(kind: str, url: str, **options: Any) -> AsyncIterator[Any]:
    """A client of this kind, opened; the verbs of the blocking one are awaited, too."""
    if kind == "async":
        async with leasehold.connect(url, **options) as locks:
            yield locks
    else:
        with blocking.connect(url, **options) as locks:
            yield InThread(locks)
