"""From arguments to an exit code."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys

import typer

from leasehold.cli.app import app
from leasehold.cli.exits import AFTER_SIGNAL, Exit
from leasehold.cli.failures import FailureError, failure_of, report
from leasehold.errors import LeaseholdError


def run(arguments: list[str]) -> int:
    """Do what ``arguments`` say. Every failure that was foreseen is reported here, without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name may hold what this terminal cannot show
    # What the library warns of on every connection is what `doctor` is for.
    logging.getLogger("leasehold").setLevel(logging.ERROR)
    try:
        code = app(args=arguments, prog_name="leasehold", standalone_mode=False) or Exit.DONE
        if sys.stdout:  # not if it was closed
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # which is what typer and rich make of it
        return _end_unread()
    except LeaseholdError as error:
        failure = failure_of(error)
    except typer.TyperException as error:
        failure = _misuse(error)
    except FailureError as error:
        failure = error
    else:
        return code
    report(failure, in_json=_wants_json(arguments))
    return failure.exit_code


def _end_unread() -> int:
    """Whoever reads has seen enough, as in ``leasehold ls | head``: end as other programs do, without a word."""
    # What is still to be written, at the very end, must have somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return AFTER_SIGNAL + signal.SIGPIPE


def _misuse(error: typer.TyperException) -> FailureError:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "leasehold"
    message = error.format_message().rstrip(".")
    if command.endswith((" run", " lock")) and message.startswith("No such option"):
        message += "; options of the command come after --"
    return FailureError(Exit.USAGE, "invalid_request", f"{message} (see {command} --help)")


def _wants_json(arguments: list[str]) -> bool:
    """Asked of the raw arguments, because they may be what is wrong. Those of the command are not ours."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours
