"""Error reports on stderr: one line for people, or one JSON object for programs.

Not on stdout, because that carries only results, and with ``run`` it belongs to the command.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from leasehold.cli.exit_codes import BY_ERROR, ExitCode
from leasehold.cli.format import printable
from leasehold.errors import StoreError

if TYPE_CHECKING:
    from leasehold.errors import LeaseholdError


class CliError(Exception):
    """Ends the process with ``exit_code``. ``code`` is stable; ``details`` become members of the JSON object."""

    def __init__(self, exit_code: ExitCode, code: str, message: str, **details: Any) -> None:
        self.exit_code = exit_code
        self.code = code
        self.details = details
        super().__init__(message)


def as_cli_error(error: LeaseholdError, message: str | None = None, **details: Any) -> CliError:
    """The report of an error of the library, with the error's attributes as details."""
    known = {key: value for key, value in vars(error).items() if not key.startswith("_")}
    return CliError(BY_ERROR[type(error)], error.code, message or message_of(error), **known, **details)


def message_of(error: LeaseholdError) -> str:
    """The error's message, with the cause of a store error if the message does not contain it."""
    message, cause = str(error), error.__cause__
    if isinstance(error, StoreError) and cause is not None and str(cause) not in message:
        message += f": {cause}"
    return message


def report(failure: CliError, *, in_json: bool) -> None:
    """Write the error to stderr."""
    if in_json:
        members = {"code": failure.code, "message": str(failure), "exit_code": int(failure.exit_code)}
        sys.stderr.write(json.dumps(failure.details | members) + "\n")
    else:
        warn(str(failure))


def warn(message: str) -> None:
    """Write a line to stderr, escaped: it may contain names and holders that others chose."""
    lines = [printable(line) for line in message.splitlines()]
    sys.stderr.write("leasehold: " + "\n  ".join(lines) + "\n")
