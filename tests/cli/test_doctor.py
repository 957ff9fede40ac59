from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from tests.support.eventually import eventually

import leasehold

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Answer, Cli
    from tests.support.servers import Server

    from leasehold.valkey.doctor import Finding

CHECKS = [
    "server",
    "role",
    "eviction",
    "persistence",
    "scripts",
    "round trip",
    "clock",
    "survives",
    "does not",
]


def findings(answer: Answer) -> dict[str, Any]:
    return {finding["check"]: finding for finding in answer.json["findings"]}


def statuses(found: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.status for finding in found}


def test_a_good_server_is_exit_0(cli_for: Callable[[None], Cli]) -> None:
    answer = cli_for(None)("doctor", "--json")
    assert answer.code == 0
    assert answer.json["ok"] is True
    found = findings(answer)
    assert list(found) == CHECKS
    assert {finding["status"] for finding in found.values()} == {"ok"}
    assert found["server"]["value"].startswith("Valkey 9")


def test_the_text_has_a_line_for_each_check_and_advice_on_problems(cli: Cli) -> None:
    answer = cli("doctor")
    assert answer.code == 0
    lines = [line.split() for line in answer.out.splitlines()]
    assert [line[0] for line in lines] == ["ok", "ok", "ok", "warn", "→", "ok", "ok", "ok", "ok", "ok"]
    assert "→ Set appendonly yes" in answer.out


def test_an_evicting_server_is_a_problem_with_advice(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9", maxmemory="100mb", maxmemory_policy="allkeys-lru")
    answer = cli_for(server.url).inside("doctor", "--json")
    assert answer.code == 1
    assert answer.json["ok"] is False
    found = findings(answer)["eviction"]
    assert found["status"] == "problem"
    assert "noeviction" in found["advice"]


def test_a_replica_is_a_problem(cli_for: Callable[[str], Cli], own_server: Callable[..., Server]) -> None:
    primary, replica = own_server("valkey9"), own_server("valkey9")
    replica.replicate_from(primary)
    replica.wait_until_synced()
    answer = cli_for(replica.url).inside("doctor", "--json")
    assert answer.code == 1
    found = findings(answer)
    assert found["role"]["status"] == "problem"
    assert found["role"]["value"] == f"replica of 127.0.0.1:{primary.port}"
    assert found["scripts"]["status"] == "problem"
    assert "read-only replica" in found["scripts"]["value"]


def test_fewer_replicas_than_min_replicas_are_a_problem(
    cli_for: Callable[[str], Cli], valkey: Server
) -> None:
    answer = cli_for(f"{valkey.url}?min_replicas=2").inside("doctor", "--json", "--timeout", "2")
    assert answer.code == 1
    found = findings(answer)
    assert found["role"]["value"] == "primary, replicas: 0, min_replicas: 2"
    assert found["scripts"]["status"] == "problem"
    assert "not replicated" in found["scripts"]["value"]


def test_a_user_without_permission_to_run_scripts_is_a_problem(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9", user=["app on >pw ~other:* +@all"])
    answer = cli_for(server.url_for(username="app", password="pw")).inside("doctor", "--json")
    assert answer.code == 1
    assert findings(answer)["scripts"]["status"] == "problem"


def test_a_server_that_denies_info_and_config_is_a_warning(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9", user=["app on >pw ~* +@all -info"])
    answer = cli_for(server.url_for(username="app", password="pw")).inside("doctor", "--json")
    assert answer.code == 0
    found = findings(answer)
    assert {check: found[check]["status"] for check in CHECKS[:4]} == dict.fromkeys(CHECKS[:4], "warn")


def test_a_disk_that_cannot_be_written_is_a_problem(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9", save="3600 1")
    server.call("SET", "something", "to save")
    server.data.rmdir()
    server.call("BGSAVE")
    eventually(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err")
    found = findings(cli_for(server.url).inside("doctor", "--json"))
    assert found["persistence"]["status"] == "problem"


def test_an_unreachable_server_is_exit_5(cli_for: Callable[[str], Cli]) -> None:
    answer = cli_for("redis://127.0.0.1:1").inside("doctor", "--json", "--timeout", "0.3")
    assert answer.code == 5
    assert answer.error["code"] == "store_unavailable"


def test_the_async_client_finds_the_same_on_every_server(any_server: Server) -> None:
    async def ask() -> list[Finding]:
        async with leasehold.connect(any_server.url) as locks:
            return await locks.diagnose()

    with leasehold.blocking.connect(any_server.url) as locks:
        found = statuses(locks.diagnose())
    assert found == statuses(asyncio.run(ask())) == {**dict.fromkeys(CHECKS, "ok"), "persistence": "warn"}


@pytest.mark.parametrize("decode_responses", [False, True])
async def test_a_redis_py_client_can_be_diagnosed_as_well(valkey: Server, decode_responses: bool) -> None:
    expected = {**dict.fromkeys(CHECKS, "ok"), "persistence": "warn"}
    with redis.Redis.from_url(valkey.url, decode_responses=decode_responses) as client:
        assert statuses(leasehold.from_client(client).diagnose()) == expected
    async with redis.asyncio.Redis.from_url(valkey.url, decode_responses=decode_responses) as client:
        locks = leasehold.from_client(client)
        assert statuses(await locks.diagnose()) == expected
        await locks.close()


def test_nothing_is_left_held(cli: Cli, valkey: Server, tmp_path: Path) -> None:
    cli.inside("doctor")
    assert [key for key in valkey.call("KEYS", "*") if valkey.call("PTTL", key) < 0] == []
    assert not cli.inside("show", "leasehold-doctor", "--json").json["is_held"]
