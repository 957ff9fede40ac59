from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.cli.conftest import finish
from tests.support.eventually import eventually

import leasehold
from leasehold.cli.errors import CliError
from leasehold.cli.release import release_by_force

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Cli

    from leasehold.blocking import Client


def test_release_without_force_is_refused_and_changes_nothing(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600)
    answer = cli("release", "demo")
    assert answer.code == 2
    assert "--force" in answer.line
    lease.renew()


def test_release_without_force_as_json(cli: Cli) -> None:
    error = cli.inside("release", "demo", "--json").error
    assert (error["code"], error["exit_code"]) == ("force_required", 2)


def test_release_by_force_frees_the_lock_and_raises_the_fence(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600)
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
    lease = locks.acquire("demo", ttl=600)
    answer = cli.inside("release", "demo", "--force", "--json")
    (lost,) = answer.json["lost_holds"]
    assert (lost["holder"], lost["fence"]) == ("the-test", str(lease.fence))
    assert answer.json == {
        "name": "demo",
        "released": True,
        "fence": str(locks.inspect("demo").fence),
        "lost_by": "the-test",
        "lost_fence": str(lease.fence),
        "lost_holds": [lost],
        "waiters": 0,
    }
    assert lease.token not in answer.out


def test_release_by_force_ends_all_readers_and_says_so(cli: Cli, locks: Client) -> None:
    leases = [
        locks.acquire("demo", ttl=600, mode="shared", holder=holder) for holder in ("ada", "bob", "e\x1bve")
    ]
    answer = cli.inside("release", "demo", "--force")
    assert answer.code == 0
    said, _, who = answer.out.rstrip("\n").partition(": ")
    assert said == "demo is released; 3 readers have lost it"
    assert set(who.split(", ")) == {"ada", "bob", "e\\x1bve"}
    after = locks.inspect("demo")
    assert not after.is_held
    assert after.fence is not None
    for lease in leases:
        assert after.fence > lease.fence
        with pytest.raises(leasehold.LeaseLost, match="taken"):
            lease.renew()


def test_release_by_force_of_the_only_reader(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600, mode="shared")
    assert "; its only reader, the-test has lost it" in cli.inside("release", "demo", "--force").out


def test_release_by_force_of_readers_as_json(cli: Cli, locks: Client) -> None:
    leases = [locks.acquire("demo", ttl=600, mode="shared", holder=holder) for holder in ("ada", "bob")]
    shown = cli.inside("release", "demo", "--force", "--json").json
    assert shown["released"]
    assert shown["lost_by"] in {"ada", "bob"}
    assert shown["lost_fence"] == str(leases[1].fence)
    assert {hold["holder"]: hold["fence"] for hold in shown["lost_holds"]} == {
        "ada": str(leases[0].fence),
        "bob": str(leases[1].fence),
    }


def test_of_many_readers_the_first_are_named(cli: Cli, locks: Client) -> None:
    for number in range(12):
        locks.acquire("demo", ttl=600, mode="shared", holder=f"reader-{number}")
    out = cli.inside("release", "demo", "--force").out
    assert "12 readers have lost it: reader-" in out
    assert out.endswith(" and 2 more\n")


def test_a_waiter_gets_the_lock_that_was_released_by_force(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    waits = cli.start("run", "demo", "--wait", "forever", "--retry-interval", "10", "--", "echo", "ran")
    eventually(lambda: locks.inspect("demo").waiters == 1)
    answer = cli.inside("release", "demo", "--force")
    assert answer.out.endswith("; the next of 1 waiter gets it\n")
    assert (finish(waits).out, waits.returncode) == ("ran\n", 0)


class ClientWithInterruptions:
    """The real client, with a change by others after each inspect."""

    def __init__(self, locks: Client, *interruptions: Callable[[], object]) -> None:
        self._locks = locks
        self._interruptions = list(interruptions)

    def inspect(self, name: str) -> leasehold.LockInfo:
        found = self._locks.inspect(name)
        if self._interruptions:
            self._interruptions.pop(0)()
        return found

    def take(self, name: str, **options: Any) -> leasehold.blocking.Lease:
        return self._locks.take(name, **options)


def test_readers_that_join_during_the_release_lose_the_lock_too(locks: Client) -> None:
    def join() -> None:
        locks.acquire("demo", ttl=600, mode="shared", holder="late")

    locks.acquire("demo", ttl=600, mode="shared")
    released = release_by_force(ClientWithInterruptions(locks, join, join), "demo")
    assert len(released.before.holds) == 3
    assert not locks.inspect("demo").is_held


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
def test_a_holder_that_gets_the_lock_during_the_release_keeps_it(
    locks: Client, mode: Literal["exclusive", "shared"]
) -> None:
    lease = locks.acquire("demo", ttl=600, mode=mode)

    def change_hands() -> None:
        lease.release()
        locks.acquire("demo", ttl=600, mode=mode, holder="next")

    with pytest.raises(CliError, match="has a new holder, next; nothing was done"):
        release_by_force(ClientWithInterruptions(locks, change_hands), "demo")
    assert locks.inspect("demo").holder == "next"


def test_a_lock_that_its_holder_releases_in_between_is_free(locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600)
    released = release_by_force(ClientWithInterruptions(locks, lease.release), "demo")
    assert released.as_text() == "demo is free; nothing to release"


def test_releasing_a_free_lock_does_nothing_and_is_not_an_error(cli: Cli, locks: Client) -> None:
    answer = cli.inside("release", "demo", "--force")
    assert (answer.code, answer.out) == (0, "demo is free; nothing to release\n")
    assert not cli.inside("release", "demo", "--force", "--json").json["released"]
    assert locks.inspect("demo").fence is None
