from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import leasehold

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

    from leasehold.blocking import Client


def test_release_without_force_is_refused_and_changes_nothing(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=60)
    answer = cli("release", "demo")
    assert answer.code == 2
    assert "--force" in answer.line
    lease.renew()


def test_release_without_force_as_json(cli: Cli) -> None:
    error = cli("release", "demo", "--json").error
    assert (error["code"], error["exit_code"]) == ("force_required", 2)


def test_release_by_force_frees_the_lock_and_raises_the_fence(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=60)
    answer = cli("release", "demo", "--force")
    assert answer.code == 0
    assert "the-test has lost it" in answer.out
    after = locks.inspect("demo")
    assert not after.is_held
    assert after.fence is not None
    assert after.fence > lease.fence
    with pytest.raises(leasehold.LeaseLost, match="taken"):
        lease.renew()


def test_release_by_force_as_json(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=60)
    answer = cli("release", "demo", "--force", "--json")
    assert answer.json == {
        "name": "demo",
        "released": True,
        "fence": str(locks.inspect("demo").fence),
        "lost_by": "the-test",
        "lost_fence": str(lease.fence),
    }
    assert lease.token not in answer.out


def test_releasing_a_free_lock_does_nothing_and_is_no_error(cli: Cli, locks: Client) -> None:
    answer = cli("release", "demo", "--force")
    assert (answer.code, answer.out) == (0, "demo is free; nothing to release\n")
    assert not cli("release", "demo", "--force", "--json").json["released"]
    assert locks.inspect("demo").fence is None
