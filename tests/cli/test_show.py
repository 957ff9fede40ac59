from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Terminal

    from leasehold.blocking import Client


def test_a_held_lock_is_shown_with_holder_since_fence_remaining_mode_and_waiters(
    cli: Cli, locks: Client
) -> None:
    lease = locks.acquire("demo", ttl=60)
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
    assert shown["remaining"].endswith(" s")
    assert lease.token not in answer.out


def test_a_held_lock_as_json(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=60, holder={"user": "ada", "tab": 3})
    answer = cli("show", "demo", "--json")
    shown = answer.json
    assert 0 < shown.pop("remaining") <= 60
    assert abs(shown.pop("held_since") - time.time()) < 60
    assert shown == {
        "name": "demo",
        "is_held": True,
        "mode": "exclusive",
        "fence": str(lease.fence),
        "holder": {"user": "ada", "tab": 3},
        "waiters": 0,
    }
    assert lease.token not in answer.out


def test_a_free_lock_is_no_error(cli: Cli) -> None:
    answer = cli("show", "nobody's")
    assert answer.code == 0
    assert answer.out.startswith("nobody's is free\n")


def test_a_free_lock_as_json(cli: Cli) -> None:
    assert cli("show", "demo", "--json").json == {
        "name": "demo",
        "is_held": False,
        "mode": None,
        "fence": None,
        "holder": None,
        "held_since": None,
        "remaining": None,
        "waiters": 0,
    }


def test_names_are_shown_as_they_are_and_never_as_markup(cli: Cli) -> None:
    assert cli("show", "[red]déal:42[/red]").out.startswith("[red]déal:42[/red] is free\n")


def test_a_name_that_the_terminal_cannot_show_is_escaped(cli: Cli) -> None:
    answer = cli("show", "鍵", env={"PYTHONIOENCODING": "ascii"})
    assert (answer.code, answer.out.splitlines()[0]) == (0, "\\u9375 is free")


def test_a_terminal_gets_a_panel(cli: Cli, locks: Client, terminal: Terminal) -> None:
    locks.acquire("demo", ttl=60)
    process = cli.start_in_terminal(terminal.slave, "show", "demo")
    terminal.expect("╭─ ")
    terminal.expect("the-test")
    assert process.wait(20) == 0


def test_another_namespace_holds_other_locks(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=60)
    assert not cli("show", "demo", "--namespace", "other", "--json").json["is_held"]
