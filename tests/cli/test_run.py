from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import LEASEHOLD, finish
from tests.support.eventually import LIMIT, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Cli, Terminal
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

    from leasehold.blocking import Client

# Reports that it runs, and notes the signals that it handles. SIGUSR2 ends it with 42.
COUNTING = """
import os, signal, sys, time
def note(number, frame):
    print(signal.Signals(number).name, file=open("caught", "a"), flush=True)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), note)
ended = []
signal.signal(signal.SIGUSR2, lambda number, frame: ended.append(number))
open("running", "w").write(str(os.getpid()))
while not ended:
    time.sleep(0.01)
sys.exit(42)
"""
# Notes the first signal, and ends with 42.
TRAPPING = COUNTING.replace("while not ended:", "while not os.path.exists('caught'):")
# Has a child. Both write down the time for as long as they run.
OBEDIENT = """
import os, time
who = "parent" if (child := os.fork()) else "child"
if child:
    open("running", "w").write(str(child))
while True:
    with open(who + ".new", "w") as file:
        file.write(str(time.time()))
    os.replace(who + ".new", who)
    time.sleep(0.01)
"""
# The same, but it ignores SIGTERM, and SIGHUP, which the end of a terminal would end it with.
STUBBORN = (
    """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
"""
    + OBEDIENT
)
PYTHON = (sys.executable, "-ISc")
# For a store that stops answering, and must answer until then.
PATIENCE = ("--timeout", "5")


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - read in one go, often
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def appears(path: Path) -> str:
    return eventually(lambda: path.exists() and path.read_text().strip(), message=f"{path.name} is written")


# What the command gets


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_of_the_command_is_passed_on(cli: Cli, code: int) -> None:
    answer = cli("run", "demo", "--", "sh", "-c", f"exit {code}")
    assert (answer.code, answer.err) == (code, "")


def test_a_command_that_a_signal_ended_is_reported_as_shells_do(cli: Cli) -> None:
    assert cli("run", "demo", "--", "sh", "-c", "kill -KILL $$").code == 128 + signal.SIGKILL


def test_the_command_gets_name_and_fence_and_nothing_else_in_its_environment(cli: Cli, locks: Client) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    answer = cli("run", "demo", "--", sys.executable, "-ISc", code)
    fence = locks.inspect("demo").fence
    assert fence
    # Python itself sets LC_CTYPE in a C locale.
    added = {k: v for k, v in answer.json.items() if k not in cli.env and k != "LC_CTYPE"}
    assert added == {"LEASEHOLD_NAME": "demo", "LEASEHOLD_FENCE": str(fence)}


def test_the_command_has_our_stdin_stdout_stderr_and_descriptors(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "three").write_text("3")
    descriptor = os.open(tmp_path / "three", os.O_RDONLY)
    try:
        process = cli.start(
            "run", "demo", "--", "sh", "-c", f"cat; cat /dev/fd/{descriptor}; echo err >&2",
            stdin=subprocess.PIPE,
            pass_fds=[descriptor],
        )  # fmt: skip
        answer = finish(process, typing="in")
    finally:
        os.close(descriptor)
    assert (answer.out, answer.err, answer.code) == ("in3", "err\n", 0)


SIGNALS = ("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")


def blocked_and_ignored(status: str) -> list[int]:
    return [int(line.split()[1], 16) for line in status.splitlines()]


def here() -> list[int]:
    """What a command started from this very process gets; a runner may ignore signals of its own."""
    return blocked_and_ignored(subprocess.run(SIGNALS, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_starts_with_no_signal_ignored_or_blocked_by_us(cli: Cli) -> None:
    assert blocked_and_ignored(cli("run", "demo", "--", *SIGNALS).out) == here()


def test_options_after_the_dashes_belong_to_the_command(cli: Cli) -> None:
    answer = cli("run", "demo", "--", "echo", "--json", "--ttl", "--", "-x")
    assert answer.out == "--json --ttl -- -x\n"


# Holding


def test_the_lock_is_held_while_the_command_runs_and_free_afterwards(cli: Cli, locks: Client) -> None:
    process = cli.start("run", "demo", "--holder", "nightly", "--", "cat", stdin=subprocess.PIPE)
    info = eventually(lambda: (i := locks.inspect("demo")).is_held and i)
    assert info.holder == "nightly"
    assert finish(process, typing="").code == 0
    assert not locks.inspect("demo").is_held


def test_the_lease_is_renewed_for_as_long_as_the_command_runs(cli: Cli, locks: Client) -> None:
    # Renewed every three seconds; a process without CPU time for six has lost it.
    process = cli.start("run", "demo", "--ttl", "9", "--grace", "0", "--", "cat", stdin=subprocess.PIPE)
    first = before = eventually(lambda: (i := locks.inspect("demo")).is_held and i)
    renewals = 0
    while renewals < 3:
        time.sleep(0.05)
        now = locks.inspect("demo")
        assert now.held_since == first.held_since
        renewals += now.remaining > before.remaining
        before = now
    assert finish(process, typing="").code == 0


def test_it_waits_until_the_lock_is_free(cli: Cli, valkey: Server, locks: Client, tmp_path: Path) -> None:
    lease = locks.acquire("demo", ttl=600)
    process = cli.start("run", "demo", "--wait", "forever", "--", "touch", "ran")
    waits_for_lock(process, valkey)
    assert not (tmp_path / "ran").exists()
    lease.release()
    assert finish(process).code == 0
    assert (tmp_path / "ran").exists()


def test_after_a_wait_the_command_starts_with_the_whole_ttl(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600)
    process = cli.start("run", "demo", "--wait", "forever", "--", *LEASEHOLD, "show", "demo", "--json")
    eventually(lambda: locks.inspect("demo").waiters == 1)
    lease.release()
    answer = finish(process)
    assert (answer.code, answer.err) == (0, "")
    # What is handed over lasts for two seconds until it is claimed.
    assert 2 < answer.json["remaining"] <= 30


# Reading


def test_readers_hold_the_lock_together_and_a_refused_writer_sees_them(cli: Cli, locks: Client) -> None:
    first = cli.start("run", "demo", "--shared", "--holder", "ada", "--", "cat", stdin=subprocess.PIPE)
    eventually(lambda: locks.inspect("demo").is_held)
    answer = cli("run", "demo", "--shared", "--", *LEASEHOLD, "show", "demo", "--json")
    assert answer.code == 0
    assert answer.json["mode"] == "shared"
    assert len(answer.json["holds"]) == 2
    answer = cli("run", "demo", "--wait", "0", "--", "true")
    assert answer.code == 3
    assert answer.line.startswith("leasehold: 'demo' is held for reading by ada since 20")
    assert finish(first, typing="").code == 0
    assert cli("run", "demo", "--wait", "0", "--", "true").code == 0


def test_a_reader_waits_for_a_writer(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600)
    assert cli("run", "demo", "--shared", "--wait", "0", "--", "true").code == 3
    process = cli.start("run", "demo", "--shared", "--wait", "forever", "--", "echo", "read")
    eventually(lambda: locks.inspect("demo").waiters == 1)
    lease.release()
    assert (finish(process).out, process.returncode) == ("read\n", 0)


def test_a_reader_whose_lock_is_taken_stops(cli: Cli, locks: Client, tmp_path: Path) -> None:
    process = cli.start("run", "demo", "--shared", "--json", "--", sys.executable, "-c", TRAPPING, "SIGTERM")
    appears(tmp_path / "running")
    locks.take("demo", ttl=600)
    answer = finish(process)
    assert (answer.code, answer.error["reason"]) == (4, "taken")
    assert (tmp_path / "caught").read_text() == "SIGTERM\n"


def waits_for_lock(process: subprocess.Popen[str], server: Server) -> None:
    """Return when the server has answered the process's first request for a lock."""

    def has_asked() -> bool:
        clients = server.call("CLIENT", "LIST").decode().splitlines()
        return any(
            f" name=leasehold-{process.pid} " in client and " cmd=eval" in client for client in clients
        )

    eventually(has_asked)


# Busy


def test_a_busy_lock_is_exit_3_and_one_line_with_holder_and_start(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    answer = cli("run", "demo", "--wait", "0", "--", "touch", "ran")
    assert answer.code == 3
    assert answer.line.startswith("leasehold: 'demo' is held by the-test since 20")
    assert answer.line.endswith(" left unless renewed; no waiters")


def test_a_busy_lock_is_described_without_another_request(cli: Cli, valkey: Server, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    assert cli("run", "demo", "--wait", "0", "--", "true").code == 3  # the script is known from here on
    valkey.call("CONFIG", "RESETSTAT")
    assert cli("run", "demo", "--wait", "0", "--", "true").code == 3
    stats = valkey.call("INFO", "commandstats")
    asked = {command: stats[command]["calls"] for command in stats if command.startswith("cmdstat_eval")}
    assert asked == {"cmdstat_evalsha": 1}


def test_a_timeout_names_the_waiters_and_the_position_in_the_queue(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    # A long interval, because a client that polls rarely counts as alive for long.
    cli.start("run", "demo", "--wait", "forever", "--retry-interval", "10", "--", "true")
    eventually(lambda: locks.inspect("demo").waiters == 1)
    answer = cli("run", "demo", "--wait", "0.2", "--", "true")
    assert answer.code == 3
    assert answer.line.startswith("leasehold: 'demo' is held by the-test since 20")
    assert re.search(
        r" min left unless renewed; 1 waiter; gave up after [\d.]+ s as number 2 in the queue$", answer.line
    )
    error = cli("run", "demo", "--wait", "0.2", "--json", "--", "true").error
    assert (error["waiters"], error["position"], error["mode"]) == (1, 2, "exclusive")
    assert 0 < error["retry_after"] <= 600
    error = cli("run", "demo", "--wait", "0", "--json", "--", "true").error
    assert (error["waiters"], error["position"]) == (1, None)


def test_a_timeout_is_exit_3_and_names_the_wait(cli: Cli, locks: Client) -> None:
    lease = locks.acquire("demo", ttl=600)
    answer = cli("run", "demo", "--wait", "0.2", "--json", "--", "true")
    assert answer.code == 3
    assert answer.out == ""
    error = answer.error
    assert error["code"] == "acquire_timeout"
    assert error["exit_code"] == 3
    assert error["holder"] == "the-test"
    assert abs(error["held_since"] - time.time()) < LIMIT
    assert error["waited"] >= 0.2
    assert "; gave up after " in error["message"]
    assert lease.token not in answer.err


def test_a_busy_lock_with_json_has_the_code_of_the_library(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    assert cli("run", "demo", "--wait", "0", "--json", "--", "true").error["code"] == "lock_busy"


def test_control_characters_of_a_holder_are_escaped(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600, holder="evil\x1b[2J\nroot")
    answer = cli("run", "demo", "--wait", "0", "--", "true")
    assert "evil\\x1b[2J\\nroot" in answer.line
    shown = cli("show", "demo")
    assert "evil\\x1b[2J\\nroot" in shown.out


# Lost


def test_a_taken_lock_stops_the_command_and_is_exit_4(cli: Cli, locks: Client, tmp_path: Path) -> None:
    process = cli.start("run", "demo", "--json", "--", sys.executable, "-c", TRAPPING, "SIGTERM")
    appears(tmp_path / "running")
    locks.take("demo", ttl=600)
    answer = finish(process)
    assert answer.code == 4
    assert (tmp_path / "caught").read_text() == "SIGTERM\n"
    assert answer.error["code"] == "lease_lost"
    assert answer.error["reason"] == "taken"
    assert locks.inspect("demo").holder == "the-test"


def test_a_command_that_ignores_sigterm_is_killed_with_its_descendants(
    cli: Cli, locks: Client, tmp_path: Path
) -> None:
    process = cli.start("run", "demo", "--grace", "1", "--", *PYTHON, STUBBORN)
    child = int(appears(tmp_path / "running"))
    taken_at = time.monotonic()
    locks.take("demo", ttl=600)
    answer = finish(process)
    assert answer.code == 4
    assert "it was taken by force; the command was stopped" in answer.line
    assert not is_alive(child)
    assert time.monotonic() - taken_at >= 1  # it had its grace time


def test_a_grandchild_that_outlives_the_command_is_stopped_as_well(
    cli: Cli, locks: Client, tmp_path: Path
) -> None:
    script = "(trap '' TERM; echo started >inner; while :; do sleep 0.05; done) & echo $! >running; wait"
    process = cli.start("run", "demo", "--grace", "0.3", "--", "sh", "-c", script)
    child = int(appears(tmp_path / "running"))
    appears(tmp_path / "inner")
    locks.take("demo", ttl=600)
    assert finish(process).code == 4
    assert not is_alive(child)


def test_a_command_cut_off_from_the_store_ends_before_another_can_hold_the_lock(
    cli_for: Callable[[str], Cli],
    valkey: Server,
    locks: Client,
    proxy: Callable[[Server], FaultProxy],
    tmp_path: Path,
) -> None:
    wire = proxy(valkey)
    # The command is signalled five seconds before the end of its lease, and stops.
    process = cli_for(wire.url).start("run", "demo", "--ttl", "15", *PATIENCE, "--", *PYTHON, OBEDIENT)
    appears(tmp_path / "parent")
    appears(tmp_path / "child")
    wire.stall()
    with locks.lock("demo", wait=60):
        granted_at = time.time()
        answer = finish(process)
        last = [float((tmp_path / who).read_text()) for who in ("parent", "child")]
        assert max(last) < granted_at
    assert answer.code == 4
    assert "(expired)" in answer.line


def test_a_command_cut_off_from_the_store_is_killed_if_it_does_not_stop(
    cli_for: Callable[[str], Cli], valkey: Server, proxy: Callable[[Server], FaultProxy], tmp_path: Path
) -> None:
    wire = proxy(valkey)
    process = cli_for(wire.url).start("run", "demo", "--ttl", "9", *PATIENCE, "--", *PYTHON, STUBBORN)
    child = int(appears(tmp_path / "running"))
    wire.stall()
    answer = finish(process)
    assert answer.code == 4
    assert "(expired)" in answer.line
    assert not is_alive(child)


def test_max_hold_stops_the_command_in_time(cli: Cli) -> None:
    answer = cli("run", "demo", "--max-hold", "1", "--json", "--", "sleep", "600")
    assert answer.code == 4
    assert answer.error["reason"] == "max_hold"


def test_a_loss_that_shows_only_at_the_end_is_not_hidden(cli: Cli, valkey: Server, locks: Client) -> None:
    # With a long ttl: the next renewal would find out as well.
    process = cli.start("run", "demo", "--ttl", "600", "--", "cat", stdin=subprocess.PIPE)
    eventually(lambda: locks.inspect("demo").is_held)
    valkey.call("DEL", "lock:{demo}")  # a take by Leasehold would be notified at once
    answer = finish(process, typing="")
    assert answer.code == 4
    assert "the command had ended by then, with 0" in answer.line


def test_a_store_that_dies_during_the_command_does_not_change_the_exit_code(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = own_server("valkey9")
    process = cli_for(server.url).start(
        *("run", "demo", *PATIENCE, "--", "sh", "-c", "touch running; read line; exit 6"),
        stdin=subprocess.PIPE,
    )
    eventually((tmp_path / "running").exists)
    server.kill()
    answer = finish(process, typing="\n")
    assert answer.code == 6
    assert "the lock stays held until its ttl is over" in answer.err


# Signals


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_signals_are_forwarded_to_the_command_once(
    cli: Cli, locks: Client, tmp_path: Path, name: str
) -> None:
    process = cli.start("run", "demo", "--", sys.executable, "-c", COUNTING, name)
    appears(tmp_path / "running")
    process.send_signal(getattr(signal, name))
    appears(tmp_path / "caught")
    process.send_signal(signal.SIGUSR2)  # passed on after all that came before it
    answer = finish(process)
    assert (answer.code, answer.err) == (42, "")
    assert (tmp_path / "caught").read_text() == f"{name}\n"
    assert not locks.inspect("demo").is_held


def test_a_signal_that_the_command_does_not_handle_ends_it_and_the_lock_is_free(
    cli: Cli, locks: Client, tmp_path: Path
) -> None:
    process = cli.start("run", "demo", "--", "sh", "-c", "echo $$ >running; sleep 60; echo on >>running")
    appears(tmp_path / "running")
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 128 + signal.SIGTERM
    assert not locks.inspect("demo").is_held


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_waiting_and_nothing_is_left_over(
    cli: Cli, valkey: Server, locks: Client, tmp_path: Path, name: str
) -> None:
    lease = locks.acquire("demo", ttl=600)
    process = cli.start("run", "demo", "--wait", "forever", "--", "touch", "ran")
    waits_for_lock(process, valkey)
    process.send_signal(getattr(signal, name))
    answer = finish(process)
    assert (answer.code, answer.err) == (128 + getattr(signal, name), "")
    lease.release()
    assert not locks.inspect("demo").is_held
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_nohup_ignores_stays_ignored(cli: Cli) -> None:
    nohup = ["sh", "-c", 'trap "" HUP; exec "$@"', "-"]
    process = cli.start("run", "demo", "--", "grep", "SigIgn", "/proc/self/status", prefix=nohup)
    assert int(finish(process).out.split()[1], 16) == here()[1] | 1 << (signal.SIGHUP - 1)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG")
def test_when_leasehold_is_killed_the_kernel_kills_the_command(cli: Cli, tmp_path: Path) -> None:
    process = cli.start("run", "demo", "--", sys.executable, "-c", TRAPPING, "SIGTERM")
    command = int(appears(tmp_path / "running"))
    process.kill()
    eventually(lambda: not is_alive(command))


# In a terminal


def test_in_a_terminal_the_command_can_ask_its_user(cli: Cli, terminal: Terminal) -> None:
    process = cli.start_in_terminal(
        terminal.slave, "run", "demo", "--", "sh", "-c", "read line; echo got $line"
    )
    terminal.type("hello\n")
    terminal.expect("got hello")
    assert finish(process).code == 0


def test_ctrl_c_in_a_terminal_reaches_the_command_once(cli: Cli, terminal: Terminal, tmp_path: Path) -> None:
    process = cli.start_in_terminal(
        terminal.slave, "run", "demo", "--", sys.executable, "-c", COUNTING, "SIGINT"
    )
    appears(tmp_path / "running")
    terminal.type("\x03")
    appears(tmp_path / "caught")
    process.send_signal(signal.SIGUSR2)  # passed on after all that came before it
    answer = finish(process)
    assert (answer.code, answer.err) == (42, "")
    assert (tmp_path / "caught").read_text() == "SIGINT\n"


def test_a_kill_in_a_terminal_is_forwarded(cli: Cli, terminal: Terminal, tmp_path: Path) -> None:
    process = cli.start_in_terminal(
        terminal.slave, "run", "demo", "--", sys.executable, "-c", TRAPPING, "SIGTERM"
    )
    appears(tmp_path / "running")
    process.terminate()
    assert finish(process).code == 42


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_lost_lease_in_a_terminal_stops_only_the_command_and_its_descendants(
    cli: Cli, locks: Client, terminal: Terminal, tmp_path: Path
) -> None:
    process = cli.start_in_terminal(terminal.slave, "run", "demo", "--grace", "0.3", "--", *PYTHON, STUBBORN)
    child = int(appears(tmp_path / "running"))
    # In one group with leasehold, so a signal to the group would have hit leasehold as well.
    assert os.getpgid(child) == os.getpgid(process.pid)
    locks.take("demo", ttl=600)
    answer = finish(process)
    assert answer.code == 4
    assert not is_alive(child)


# Commands that cannot be run


def test_an_unknown_command_is_exit_127_and_locks_nothing(cli: Cli, locks: Client) -> None:
    answer = cli("run", "demo", "--", "no-such-command")
    assert answer.code == 127
    assert answer.line == "leasehold: 'no-such-command': command not found"
    assert locks.inspect("demo").fence is None


@pytest.mark.parametrize("mode", [0o644, 0o755], ids=["not executable", "not a program"])
def test_a_file_that_cannot_be_executed_is_exit_126_and_the_lock_is_free(
    cli: Cli, locks: Client, tmp_path: Path, mode: int
) -> None:
    (tmp_path / "file").write_bytes(b"\0\1\2")
    (tmp_path / "file").chmod(mode)
    answer = cli("run", "demo", "--", "./file")
    assert answer.code == 126
    assert "./file" in answer.line
    assert not locks.inspect("demo").is_held


# Nothing started


def test_it_works_on_a_machine_with_nothing_started(cli_for: Callable[[None], Cli], tmp_path: Path) -> None:
    cli = cli_for(None)
    assert cli("run", "demo", "--", "true").code == 0
    shown = cli("show", "demo", "--json").json
    assert shown["fence"]
    assert not shown["is_held"]
    assert (tmp_path / "data" / "leasehold").is_dir()
