"""Runs the command that the arguments name, and maps errors to exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys

from leasehold.cli.app import app
from leasehold.cli.errors import CliError, as_cli_error, report
from leasehold.cli.exit_codes import AFTER_SIGNAL, ExitCode
from leasehold.cli.parser import HELP, Command, Group, find_member, parse
from leasehold.errors import LeaseholdError


def run(arguments: list[str]) -> int:
    """Run the command and return the exit code. Expected errors are reported here, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may hold characters that the terminal lacks
    try:
        code = _run_command(arguments) or ExitCode.DONE
        if sys.stdout:  # None if it was closed
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich turns the one into the other
        return _exit_on_closed_pipe()
    except LeaseholdError as error:
        failure = as_cli_error(error)
    except CliError as error:
        failure = error
    else:
        return code
    report(failure, in_json=_wants_json(arguments))
    return failure.exit_code


def _run_command(words: list[str]) -> int | None:
    member: Command | Group = app
    while isinstance(member, Group):
        if not words or words[0] in HELP:
            return _print_help(member)
        if member is app and words[0] == "--version":
            return _print_version()
        member, words = find_member(member, words), words[1:]
    parameters = parse(member, words)
    if parameters is None:
        return _print_help(member)
    import logging  # noqa: PLC0415 - the help does not need it

    # The library warns on every connection of what `doctor` reports.
    logging.getLogger("leasehold").setLevel(logging.ERROR)
    return member.run(**parameters)


def _print_help(member: Command | Group) -> None:
    from leasehold.cli.help import format_help  # noqa: PLC0415 - commands that run do not need it

    _write(format_help(member))


def _print_version() -> None:
    from importlib.metadata import version  # noqa: PLC0415 - only here

    _write(f"leasehold {version('leasehold')}\n")


def _write(text: str) -> None:
    if sys.stdout:  # None if it was closed
        sys.stdout.write(text)


def _exit_on_closed_pipe() -> int:
    """The exit code when the reader has closed the pipe, as in ``leasehold ls | head``, which is not an error."""
    # The interpreter flushes stdout at exit; without this the flush would fail once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return AFTER_SIGNAL + signal.SIGPIPE


def _wants_json(arguments: list[str]) -> bool:
    """Whether ``--json`` is among our arguments. Read unparsed, because the error may be in them."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours
