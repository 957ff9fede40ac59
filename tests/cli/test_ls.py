from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from tests.support.eventually import LIMIT, eventually

from leasehold import Hold, LockInfo
from leasehold.cli.ls import SORTED_UP_TO, in_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Answer, Cli, Terminal
    from tests.support.servers import Server

    from leasehold.blocking import Client


def rows(answer: Answer) -> dict[str, list[str]]:
    """The columns behind each name."""
    assert answer.code == 0
    assert answer.err == ""
    return {name: rest for name, *rest in (line.split("\t") for line in answer.out.splitlines())}


def names(answer: Answer) -> list[str]:
    assert answer.code == 0
    return [line.partition("\t")[0] for line in answer.out.splitlines()]


# Without a terminal


def test_each_lock_is_a_line_with_tabs_between_the_fields(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600)
    answer = cli("ls")
    ((name, columns),) = rows(answer).items()
    holder, mode, since, remaining, waiters, fence = columns
    assert (name, holder, mode, waiters, fence) == ("demo", "the-test", "exclusive", "0", str(lease.fence))
    assert 0 < float(remaining) <= 600
    held_since = locks.inspect("demo").held_since
    assert held_since is not None
    assert abs(datetime.fromisoformat(since).timestamp() - held_since) <= 1
    assert lease.token not in answer.out


def test_few_locks_are_sorted_by_name(cli: Cli, locks: Client) -> None:
    for name in ("b", "ä", "a", "c", "B"):
        locks.acquire(name, ttl=600)
    assert names(cli.inside("ls")) == ["B", "a", "b", "c", "ä"]


def test_only_what_matches_is_listed(cli: Cli, locks: Client) -> None:
    for name in ("deal:1", "deal:2", "deal:12", "report"):
        locks.acquire(name, ttl=600)
    assert names(cli.inside("ls", "deal:*")) == ["deal:1", "deal:12", "deal:2"]
    assert names(cli.inside("ls", "deal:?")) == ["deal:1", "deal:2"]
    assert names(cli.inside("ls", "*[t2]")) == ["deal:12", "deal:2", "report"]
    assert names(cli.inside("ls", "report")) == ["report"]


def test_a_released_lock_is_not_listed(cli: Cli, locks: Client) -> None:
    locks.acquire("gone", ttl=600).release()
    locks.acquire("here", ttl=600)
    assert names(cli.inside("ls")) == ["here"]


def test_readers_share_a_line(cli: Cli, locks: Client) -> None:
    leases = [
        locks.acquire("report", ttl=600, mode="shared", holder=holder) for holder in ("ada", "bob", "eve")
    ]
    holder, mode, *_, fence = rows(cli.inside("ls"))["report"]
    assert (mode, fence) == ("shared", str(leases[-1].fence))
    # They may all have joined in one millisecond; then any of them is the first.
    assert holder in {"ada and 2 more", "bob and 2 more", "eve and 2 more"}


def test_waiters_are_counted(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    for _ in range(2):
        # A long interval, because a client that polls rarely counts as alive for long.
        cli.start("run", "demo", "--wait", "forever", "--retry-interval", "10", "--", "true")
    eventually(lambda: locks.inspect("demo").waiters == 2)
    assert rows(cli.inside("ls"))["demo"][4] == "2"
    assert cli.inside("ls", "--json").json["waiters"] == 2


def test_names_and_holders_cannot_steer_the_terminal_or_the_columns(cli: Cli, locks: Client) -> None:
    locks.acquire("evil\x1b[2J\tname\n\u202ex", ttl=600, holder="e\tv\nil")
    locks.acquire("[red]markup[/red]", ttl=600)
    shown = rows(cli.inside("ls"))
    assert set(shown) == {"evil\\x1b[2J\\tname\\n\\u202ex", "[red]markup[/red]"}
    assert shown["evil\\x1b[2J\\tname\\n\\u202ex"][0] == "e\\tv\\nil"
    assert json.loads(cli.inside("ls", "--json", "evil*").out)["name"] == "evil\x1b[2J\tname\n\u202ex"


def test_another_namespace_has_other_locks(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    answer = cli.inside("ls", "--namespace", "other")
    assert (answer.code, answer.out) == (0, "")


def test_it_works_on_a_machine_with_nothing_started(cli_for: Callable[[None], Cli]) -> None:
    answer = cli_for(None)("ls")
    assert (answer.code, answer.out) == (0, "")
    # `serve` names this command, and a reader looks for a document that is being edited.
    assert answer.line == (
        "leasehold: no lock is held or waited for; documents and files are not listed here: "
        "see /editing-now of leasehold serve, and leasehold files ls"
    )


# Nothing


def test_no_match_is_a_message_and_not_an_error(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    answer = cli.inside("ls", "x*")
    assert (answer.code, answer.out) == (0, "")
    assert answer.line == "leasehold: no lock that is held or waited for matches 'x*'"


def test_for_a_part_of_a_name_a_pattern_is_suggested(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    assert cli.inside("ls", "dem").line.endswith("did you mean 'dem*'?")


def test_no_match_prints_nothing_in_json(cli: Cli) -> None:
    answer = cli.inside("ls", "--json")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


# JSON


def test_json_is_one_object_per_line_as_in_show(cli: Cli, locks: Client) -> None:
    locks.acquire("a", ttl=600, holder={"user": "ada", "tab": 3})
    for holder in ("bob", "eve"):
        locks.acquire("b", ttl=600, mode="shared", holder=holder)
    listed = [json.loads(line) for line in cli.inside("ls", "--json").out.splitlines()]
    shown = [cli.inside("show", name, "--json").json for name in ("a", "b")]
    for lock in (*listed, *shown):
        for part in (lock, *lock["holds"]):
            assert 0 < part.pop("remaining") <= 600
    assert listed == shown


# In a terminal


def test_a_terminal_gets_a_table_with_headings(cli: Cli, locks: Client, terminal: Terminal) -> None:
    locks.acquire("demo", ttl=600, holder="ada")
    process = cli.start_in_terminal(terminal.slave, "ls")
    for word in ("name", "holder", "mode", "since", "remaining", "waiters", "fence"):
        terminal.expect(word)
    terminal.expect("ada")
    terminal.expect(" ago")
    assert process.wait(LIMIT) == 0


def test_json_on_a_terminal_is_also_one_object_per_line(cli: Cli, locks: Client, terminal: Terminal) -> None:
    locks.acquire("demo", ttl=600, holder="ada")
    process = cli.start_in_terminal(terminal.slave, "ls", "--json")
    terminal.expect('{"name": "demo", "is_held": true, ')
    assert process.wait(LIMIT) == 0


# Many


@pytest.fixture
def many(locks: Client) -> set[str]:
    found = {f"many:{number}" for number in range(SORTED_UP_TO + 200)}
    for name in found:
        locks.acquire(name, ttl=600)
    return found


def test_many_locks_are_all_listed(cli: Cli, many: set[str]) -> None:
    assert set(names(cli.inside("ls"))) == many
    assert {json.loads(line)["name"] for line in cli.inside("ls", "--json").out.splitlines()} == many
    few = names(cli.inside("ls", "many:1*"))
    assert few == sorted(name for name in many if name.startswith("many:1"))


def test_a_reader_may_close_the_pipe_early(cli: Cli, many: set[str]) -> None:
    process = cli.start("ls", "--json")
    assert process.stdout
    assert process.stderr
    assert json.loads(process.stdout.readline())["name"] in many
    process.stdout.close()
    assert process.wait(LIMIT) == 128 + 13
    assert process.stderr.read() == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_reads_nothing_causes_no_error_message(
    cli: Cli, locks: Client, unbuffered: str
) -> None:
    locks.acquire("demo", ttl=600)
    for arguments in (["ls"], ["show", "demo"], ["show", "demo", "--json"]):
        process = cli.start(*arguments, env={"PYTHONUNBUFFERED": unbuffered})
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.wait(LIMIT) == 128 + 13
        assert process.stderr.read() == ""


def counted(read: list[int]) -> Iterator[LockInfo]:
    hold = Hold("ada", 1.0, 1.0, 1)
    for number in range(20 * SORTED_UP_TO):
        read[0] += 1
        yield LockInfo(f"n{-number}", "exclusive", 1, (hold,), 0)


def test_any_number_of_locks_is_listed_from_the_first_ones_on() -> None:
    read = [0]
    batches = in_batches(counted(read))
    for number in range(1, 20):
        assert len(next(batches)) <= SORTED_UP_TO + 1
        assert read[0] <= number * SORTED_UP_TO + 1


def test_a_lock_that_the_store_shows_twice_is_listed_once_among_few() -> None:
    lock = LockInfo("demo", "exclusive", 1, (Hold("ada", 1.0, 1.0, 1),), 0)
    assert list(in_batches([lock, lock])) == [[lock]]


# Trouble


def test_a_store_that_does_not_answer_is_exit_5_and_not_an_empty_list(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9")
    answer = cli_for(server.url).inside("ls")
    assert answer.code == 0
    server.kill()
    answer = cli_for(server.url).inside("ls", "--timeout", "0.3", "--json")
    assert (answer.code, answer.out, answer.error["code"]) == (5, "", "store_unavailable")
