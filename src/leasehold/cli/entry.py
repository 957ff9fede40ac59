"""From arguments to an exit code."""

from __future__ import annotations

import io
import os
import signal
import sys

from leasehold.cli.app import app
from leasehold.cli.errors import CommandError, command_error, report
from leasehold.cli.exit_codes import AFTER_SIGNAL, Exit
from leasehold.cli.parser import HELP, Command, Group, find_member, parse
from leasehold.errors import LeaseholdError


def run(arguments: list[str]) -> int:
    """Do what ``arguments`` say. Every failure that was foreseen is reported here, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name may hold what this terminal cannot show
    try:
        code = _obey(arguments) or Exit.DONE
        if sys.stdout:  # not if it was closed
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # which is what rich makes of it
        return _end_unread()
    except LeaseholdError as error:
        failure = command_error(error)
    except CommandError as error:
        failure = error
    else:
        return code
    report(failure, in_json=_wants_json(arguments))
    return failure.exit_code


def _obey(words: list[str]) -> int | None:
    what: Command | Group = app
    while isinstance(what, Group):
        if not words or words[0] in HELP:
            return _help(what)
        if what is app and words[0] == "--version":
            return _version()
        what, words = find_member(what, words), words[1:]
    parameters = parse(what, words)
    if parameters is None:
        return _help(what)
    import logging  # noqa: PLC0415 - the help does without

    # What the library warns of on every connection is what `doctor` is for.
    logging.getLogger("leasehold").setLevel(logging.ERROR)
    return what.run(**parameters)


def _help(what: Command | Group) -> None:
    from leasehold.cli.help import help_of  # noqa: PLC0415 - commands that run do without

    _write(help_of(what))


def _version() -> None:
    from importlib.metadata import version  # noqa: PLC0415 - only here

    _write(f"leasehold {version('leasehold')}\n")


def _write(text: str) -> None:
    if sys.stdout:  # not if it was closed
        sys.stdout.write(text)


def _end_unread() -> int:
    """Whoever reads has seen enough, as in ``leasehold ls | head``: end as other programs do, without a word."""
    # What is still to be written, at the very end, must have somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return AFTER_SIGNAL + signal.SIGPIPE


def _wants_json(arguments: list[str]) -> bool:
    """Asked of the raw arguments, because they may be what is wrong. Those of the command are not ours."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours
