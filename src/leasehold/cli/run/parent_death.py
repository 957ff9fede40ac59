"""Executes the command so that it dies with its parent: ``python parent_death.py PARENT EXECUTABLE ARGV...``.

When ``leasehold run`` is killed, the lease is no longer renewed and the command could not be stopped. So the
kernel is asked to kill it then: with SIGKILL, because no process is left to follow up on a SIGTERM. This does
not reach the command's own children; only a resource that compares fences is safe from those.

A separate program and not a ``preexec_fn``, which may deadlock in a process that has threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def exec_tied_to_parent(parent: int, executable: str, argv: list[str]) -> None:
    """Replace this process by the command, which gets SIGKILL when ``parent`` dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before the call
    # Python ignores these, and an ignored signal stays ignored across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(executable, argv)  # noqa: S606 - the user asked for this command
    except OSError as error:
        sys.stderr.write(f"leasehold: {argv[0]!r} cannot be executed: {error.strerror}\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    exec_tied_to_parent(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
