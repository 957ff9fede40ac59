"""Becomes the command, tied to the life of ``leasehold run``: ``python tether.py PARENT EXECUTABLE ARGV...``.

When ``leasehold run`` is killed, nobody renews the lease and nobody could stop the command any more. So the
kernel is asked to kill it then: with SIGKILL, because nobody would be left to insist after a SIGTERM. What
the command has started itself is not reached by this; only a resource that compares fences is safe from it.

A program of its own and not a ``preexec_fn``, which may deadlock in a process that has threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def become(parent: int, executable: str, argv: list[str]) -> None:
    """Replace this process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before we asked
    # Python ignores these, and an ignored signal stays ignored in the program that comes after it.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(executable, argv)  # noqa: S606 - that is what was asked for
    except OSError as error:
        sys.stderr.write(f"leasehold: {argv[0]!r} cannot be run: {error.strerror}\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
