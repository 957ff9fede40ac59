"""A running `leasehold serve`, whose metrics are scraped."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from tests.server.served import QUICK, Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import Server


class MakeServed(Protocol):
    def __call__(self, *arguments: str, **settings: Any) -> Served: ...


@pytest.fixture
def served(tmp_path: Path, valkey: Server) -> Iterator[MakeServed]:
    """`served("--workers", "2", metrics_port=0)`: ended with the test. On the session's Valkey, and SQLite."""
    with ExitStack() as running:

        def make(*arguments: str, **settings: Any) -> Served:
            usual = QUICK | {"data_dir": tmp_path / "data", "store_url": valkey.url}
            return running.enter_context(Served(arguments, usual | settings))

        yield make
