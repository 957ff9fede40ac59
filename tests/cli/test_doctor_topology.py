"""`leasehold doctor` on a service of sentinels, and on a primary with replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scripted_sentinel import ScriptedSentinel
from tests.support.sentinels import SERVICE, Monitored

import leasehold
from leasehold.valkey.doctor import topology_checks
from leasehold.valkey.doctor.topology import ClockReading, Replica, Sentinel, Shard, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Cli
    from tests.support.clusters import Cluster
    from tests.support.servers import Server

AROUND = ["sentinels", "shards", "replicas", "clocks", "survives", "does not"]


@pytest.fixture(scope="module")
def monitored() -> Iterator[Monitored]:
    with Monitored(down_after_ms=60_000, password="open-sesame") as group:
        yield group


def diagnose(cli: Cli, *arguments: str) -> dict[str, Any]:
    found = {each["check"]: each for each in cli.inside("doctor", "--json", *arguments).json["findings"]}
    assert "sesame" not in str(found)
    return found


async def test_a_service_in_order_is_shown_with_all_its_servers(
    cli_for: Callable[[str], Cli], monitored: Monitored
) -> None:
    found = diagnose(cli_for(monitored.url))
    around = [each for each in found if each in AROUND]
    assert around == ["sentinels", "replicas", "clocks", "survives", "does not"]
    assert {found[each]["status"] for each in around} == {"ok"}
    for sentinel in monitored.sentinels:
        assert f"127.0.0.1:{sentinel.port} ok" in found["sentinels"]["value"]
    assert "quorum 2" in found["sentinels"]["value"]
    (replica,) = monitored.replicas
    assert f"127.0.0.1:{replica.port} online" in found["replicas"]["value"]
    assert "s apart" in found["clocks"]["value"]
    assert "the loss of the primary, after about 63 s" in found["survives"]["value"]
    assert "the loss of 1 sentinel" in found["survives"]["value"]
    assert "the primary and 2 sentinels" in found["does not"]["value"]
    async with leasehold.connect(monitored.url) as locks:
        also = {each.check: each.status for each in await locks.diagnose()}
    assert also == {check: each["status"] for check, each in found.items()}


def test_a_sentinel_that_is_away_is_named(cli_for: Callable[[str], Cli], monitored: Monitored) -> None:
    gone, *_ = monitored.sentinels
    gone.kill()
    try:
        found = diagnose(cli_for(monitored.url))
    finally:
        gone.start()
    assert found["sentinels"]["status"] == "warn"
    assert f"127.0.0.1:{gone.port} no answer" in found["sentinels"]["value"]
    assert "the primary and 1 sentinel" in found["does not"]["value"]


def test_without_a_replica_nothing_can_take_over(cli_for: Callable[[str], Cli]) -> None:
    with Monitored(replicas=0, sentinels=1) as group:
        found = diagnose(cli_for(group.url))
        assert (found["sentinels"]["status"], found["replicas"]["status"]) == ("warn", "problem")
        assert "no replica can be promoted" in found["does not"]["value"]
        with ScriptedSentinel(SERVICE, group.primary.port + 1) as liar:
            both = group.url.replace(f"/{SERVICE}", f",127.0.0.1:{liar.port}/{SERVICE}")
            found = diagnose(cli_for(both))
    assert found["sentinels"]["status"] == "problem"
    assert "different primaries" in found["sentinels"]["value"]


def test_a_cluster_is_shown_with_all_its_primaries(cli_for: Callable[[str], Cli], cluster: Cluster) -> None:
    found = diagnose(cli_for(cluster.url))
    assert [each for each in found if each in AROUND] == ["shards", "clocks", "survives", "does not"]
    shards = found["shards"]
    assert shards["value"].startswith("16384 of 16384 slots are served: ")
    for node in cluster.primaries:
        assert f"127.0.0.1:{node.port} ok, replicas: 0" in shards["value"]
        assert f"127.0.0.1:{node.port} +" in found["clocks"]["value"].replace(" -", " +")
    assert (shards["status"], found["clocks"]["status"]) == ("warn", "ok")
    assert "2 of 3 primaries at once" in found["does not"]["value"]


def test_a_shard_without_its_primary_is_a_problem_and_one_with_a_replica_is_in_order() -> None:
    clock = ClockReading(0.0, 0.001)
    found = {}
    for is_reachable, slots in ((True, 8_192), (False, 8_192), (True, 8_191)):
        shards = [Shard("a:1", 8_192, True, 1, clock), Shard("b:1", slots, is_reachable, 1, clock)]
        topology = Topology(None, "a:1", clock, is_known=True, keeps_data=True, shards=shards)
        found[is_reachable, slots] = {each.check: each.status for each in topology_checks.check(topology)}[
            "shards"
        ]
    assert found == {(True, 8_192): "ok", (False, 8_192): "problem", (True, 8_191): "problem"}


def test_replicas_without_sentinels_are_shown(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    primary, replica = own_server(), own_server()
    replica.replicate_from(primary)
    replica.wait_until_synced()
    found = diagnose(cli_for(primary.url))
    assert f"127.0.0.1:{replica.port} online" in found["replicas"]["value"]
    assert (found["clocks"]["status"], found["does not"]["status"]) == ("ok", "warn")
    assert "redis+sentinel://" in found["does not"]["advice"]


@pytest.mark.parametrize(("behind", "status"), [(0.1, "ok"), (2.0, "warn"), (6.0, "problem")])
def test_clocks_apart_are_a_problem_from_the_time_of_a_fail_over_on(behind: float, status: str) -> None:
    """The limit of the fences: a promoted server whose clock is behind by more than the fail-over took."""
    topology = Topology(
        service="locks",
        primary="a:1",
        primary_clock=ClockReading(0.0, 0.001),
        is_known=True,
        keeps_data=True,
        replicas=[Replica("b:1", "online", 0, ClockReading(-behind, 0.001))],
        sentinels=[Sentinel("c:1", primary="a:1", quorum=1, down_after=5, has_quorum=True)],
    )
    found = {each.check: each for each in topology_checks.check(topology)}
    assert found["clocks"].status == status


def test_a_replica_far_behind_and_one_that_cannot_be_asked_are_warnings() -> None:
    topology = Topology(
        service=None,
        primary="a:1",
        primary_clock=ClockReading(0.0, 0.001),
        is_known=True,
        keeps_data=True,
        replicas=[Replica("b:1", "online", 1 << 30, None)],
    )
    found = {each.check: each for each in topology_checks.check(topology)}
    assert {found[each].status for each in ("replicas", "clocks", "does not")} == {"warn"}
    assert "b:1 unknown" in found["clocks"].value
