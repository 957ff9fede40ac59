from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.support.eventually import LIMIT, eventually

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Terminal

    from leasehold.blocking import Client


def test_a_held_lock_is_shown_with_holder_since_fence_remaining_mode_and_waiters(
    cli: Cli, locks: Client
) -> None:
    lease = locks.acquire("demo", ttl=600)
    answer = cli("show", "demo")
    assert answer.code == 0
    title, *lines = answer.out.splitlines()
    assert title == "demo is held"
    shown = dict(line.split(None, 1) for line in lines)
    assert shown["holder"] == "the-test"
    assert shown["fence"] == str(lease.fence)
    assert shown["mode"] == "exclusive"
    assert shown["waiters"] == "0"
    assert shown["since"].endswith("ago)")
    assert shown["remaining"].endswith(" min")
    assert lease.token not in answer.out


def test_a_held_lock_as_json(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600, holder={"user": "ada", "tab": 3})
    answer = cli("show", "demo", "--json")
    shown = answer.json
    assert 0 < shown.pop("remaining") <= 600
    assert abs(shown.pop("held_since") - time.time()) < LIMIT
    (hold,) = shown.pop("holds")
    assert 0 < hold["remaining"] <= 600
    assert abs(hold["held_since"] - time.time()) < LIMIT
    assert (hold["holder"], hold["fence"]) == ({"user": "ada", "tab": 3}, str(lease.fence))
    assert shown == {
        "name": "demo",
        "is_held": True,
        "mode": "exclusive",
        "fence": str(lease.fence),
        "holder": {"user": "ada", "tab": 3},
        "waiters": 0,
    }
    assert lease.token not in answer.out


def test_all_readers_are_shown_with_what_each_of_them_holds(cli: Cli, locks: Client) -> None:
    leases = [
        locks.acquire("demo", ttl=ttl, mode="shared", holder=holder)
        for holder, ttl in (("ada", 3600), ({"user": "bob"}, 7200))
    ]
    answer = cli.inside("show", "demo")
    assert answer.code == 0
    head, _, table = answer.out.partition("\n\n")
    title, *lines = head.splitlines()
    assert title == "demo is held"
    facts = dict(line.split(None, 1) for line in lines)
    assert facts.pop("remaining") in {"2 h 0 min", "1 h 59 min"}
    assert facts == {"readers": "2", "mode": "shared", "fence": str(leases[1].fence), "waiters": "0"}
    heading, *readers = table.splitlines()
    assert heading.split() == ["reader", "since", "remaining", "fence"]
    found = {line.split()[0]: line for line in readers}
    assert set(found) == {"ada", "user=bob"}
    for lease, line in zip(leases, (found["ada"], found["user=bob"]), strict=True):
        assert line.split()[-1] == str(lease.fence)
        assert " ago)" in line
        assert lease.token not in answer.out
    assert "1 h 0 min" in found["ada"] or "60 min" in found["ada"] or "59 min" in found["ada"]


def test_all_readers_as_json(cli: Cli, locks: Client) -> None:
    leases = [
        locks.acquire("demo", ttl=ttl, mode="shared", holder=holder)
        for holder, ttl in (("ada", 300), ("bob", 600))
    ]
    answer = cli.inside("show", "demo", "--json")
    shown = answer.json
    assert (shown["is_held"], shown["mode"], shown["waiters"]) == (True, "shared", 0)
    assert shown["fence"] == str(leases[1].fence)
    assert shown["holder"] in {"ada", "bob"}  # one of them, if they came in one millisecond
    holds = {hold["holder"]: hold for hold in shown["holds"]}
    assert {holder: hold["fence"] for holder, hold in holds.items()} == {
        "ada": str(leases[0].fence),
        "bob": str(leases[1].fence),
    }
    assert 0 < holds["ada"]["remaining"] <= 300 < holds["bob"]["remaining"] == shown["remaining"]
    assert shown["held_since"] == min(hold["held_since"] for hold in holds.values())
    assert not any(lease.token in answer.out for lease in leases)


def test_waiters_are_counted(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    # A long interval, because a client that polls rarely counts as alive for long.
    cli.start("run", "demo", "--wait", "forever", "--retry-interval", "10", "--", "true")
    eventually(lambda: locks.inspect("demo").waiters == 1)
    assert cli.inside("show", "demo", "--json").json["waiters"] == 1


def test_a_free_lock_is_not_an_error(cli: Cli) -> None:
    answer = cli.inside("show", "nobody's")
    assert answer.code == 0
    assert answer.out.startswith("nobody's is free\n")


def test_a_free_lock_as_json(cli: Cli) -> None:
    assert cli.inside("show", "demo", "--json").json == {
        "name": "demo",
        "is_held": False,
        "mode": None,
        "fence": None,
        "holder": None,
        "held_since": None,
        "remaining": None,
        "waiters": 0,
        "holds": [],
    }


def test_names_are_shown_as_they_are_and_never_as_markup(cli: Cli) -> None:
    assert cli.inside("show", "[red]déal:42[/red]").out.startswith("[red]déal:42[/red] is free\n")


def test_a_name_that_the_terminal_cannot_show_is_escaped(cli: Cli) -> None:
    answer = cli("show", "鍵", env={"PYTHONIOENCODING": "ascii"})
    assert (answer.code, answer.out.splitlines()[0]) == (0, "\\u9375 is free")


def test_a_terminal_gets_a_panel(cli: Cli, locks: Client, terminal: Terminal) -> None:
    locks.acquire("demo", ttl=600)
    process = cli.start_in_terminal(terminal.slave, "show", "demo")
    terminal.expect("╭─ ")
    terminal.expect("the-test")
    assert process.wait(LIMIT) == 0


def test_a_terminal_gets_the_readers_in_the_panel(cli: Cli, locks: Client, terminal: Terminal) -> None:
    locks.acquire("demo", ttl=600, mode="shared", holder="ada")
    locks.acquire("demo", ttl=600, mode="shared", holder="evil\x1b[2J")
    process = cli.start_in_terminal(terminal.slave, "show", "demo")
    terminal.expect("reader")
    terminal.expect("│ ada ")
    terminal.expect("│ evil\\x1b[2J ")
    assert process.wait(LIMIT) == 0


def test_another_namespace_holds_other_locks(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    assert not cli.inside("show", "demo", "--namespace", "other", "--json").json["is_held"]
