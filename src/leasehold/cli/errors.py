"""What went wrong, for people (one line) and for programs (one JSON object). Both go to stderr.

Not to stdout: that carries the answer or nothing, and with ``run`` it belongs to the command.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from leasehold.cli.exit_codes import OF_ERROR, Exit
from leasehold.cli.format import printable
from leasehold.errors import StoreError

if TYPE_CHECKING:
    from leasehold.errors import LeaseholdError


class CommandError(Exception):
    """An end with another exit code than 0. ``code`` is stable; details are members of the JSON object."""

    def __init__(self, exit_code: Exit, code: str, message: str, **details: Any) -> None:
        self.exit_code = exit_code
        self.code = code
        self.details = details
        super().__init__(message)


def command_error(error: LeaseholdError, message: str | None = None, **details: Any) -> CommandError:
    """How to report an error of the library, with everything that it knows."""
    known = {key: value for key, value in vars(error).items() if not key.startswith("_")}
    return CommandError(OF_ERROR[type(error)], error.code, message or explain(error), **known, **details)


def explain(error: LeaseholdError) -> str:
    """The message, and the cause of a store's silence if the message does not name it."""
    message, cause = str(error), error.__cause__
    if isinstance(error, StoreError) and cause is not None and str(cause) not in message:
        message += f": {cause}"
    return message


def report(failure: CommandError, *, in_json: bool) -> None:
    """Say it on stderr."""
    if in_json:
        members = {"code": failure.code, "message": str(failure), "exit_code": int(failure.exit_code)}
        sys.stderr.write(json.dumps(failure.details | members) + "\n")
    else:
        warn(str(failure))


def warn(message: str) -> None:
    """A line on stderr. Names and holders are written by others, so nothing in it may steer the terminal."""
    lines = [printable(line) for line in message.splitlines()]
    sys.stderr.write("leasehold: " + "\n  ".join(lines) + "\n")
