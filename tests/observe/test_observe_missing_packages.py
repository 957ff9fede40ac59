"""Without the extra, locks work, and observe() names the extra."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.processes import Child
    from tests.support.servers import Server


def lock_without(parent: Any, url: str, blocked: list[str], wanted: list[str]) -> None:
    """Lock where these packages cannot be imported, and then ask to be watched."""
    import sys

    class Blocked:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name.partition(".")[0] in blocked:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocked())

    import leasehold
    from leasehold.observe import observe

    with leasehold.blocking.connect(url) as locks:
        with locks.lock("a") as lease:
            parent.send(fence=lease.fence)
        asked = {name: name in wanted for name in ("metrics", "tracing", "logging")}
        try:
            observe(locks, **asked)
        except ModuleNotFoundError as error:
            parent.send(error=str(error), is_watched=locks.lookout.observer is not None)
        else:
            locks.acquire("a").release()
            parent.send(error="", is_watched=locks.lookout.observer is not None)


@pytest.mark.parametrize(
    ("blocked", "wanted"),
    [
        ("prometheus_client", "metrics"),
        ("opentelemetry", "tracing"),
        ("structlog", "logging"),
        ("opentelemetry", "logging"),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(
    valkey: Server, spawn: Callable[..., Child], blocked: str, wanted: str
) -> None:
    child = spawn(lock_without, valkey.url, [blocked], [wanted])
    assert child.read(LIMIT)["fence"] > 0, "locks need none of it"
    told = child.read(LIMIT)
    assert told["error"] == f"leasehold.observe.{wanted} needs {blocked}: pip install 'leasehold[observe]'"
    assert not told["is_watched"]


def test_if_one_package_is_missing_no_observer_is_added(valkey: Server, spawn: Callable[..., Child]) -> None:
    child = spawn(lock_without, valkey.url, ["structlog"], ["metrics", "tracing", "logging"])
    assert child.read(LIMIT)["fence"] > 0
    told = child.read(LIMIT)
    assert "structlog" in told["error"]
    assert not told["is_watched"]


def test_metrics_need_no_tracing(valkey: Server, spawn: Callable[..., Child]) -> None:
    child = spawn(lock_without, valkey.url, ["opentelemetry", "structlog"], ["metrics"])
    assert child.read(LIMIT)["fence"] > 0
    assert child.read(LIMIT) == {"error": "", "is_watched": True}
