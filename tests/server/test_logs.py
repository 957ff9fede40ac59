"""Text lines of the log: what clients send cannot forge a line, nor reach a terminal."""

from __future__ import annotations

import logging
import sys

import pytest

from leasehold.server import Settings
from leasehold.server.http.logs import RequestIdFilter, _formatter

CONTROLS = {
    "ESC": "\x1b[2J",
    "CSI": "\x9b2J",
    "backspace": "\x08",
    "carriage return": "\r",
    "line feed": "\n",
    "line separator": "\u2028",
    "right to left": "\u202e",
    "NUL": "\0",
    "lone surrogate": "\udc80",
}


def line_of(message: str, *arguments: object, error: BaseException | None = None) -> str:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("leasehold.server", logging.INFO, "", 1, message, arguments, info)
    RequestIdFilter().filter(record)
    return _formatter(Settings()).format(record)


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_control_characters_are_escaped(control: str) -> None:
    line = line_of("refused with %d: %s %s", 401, "GET", f"/api/a{control}b")
    assert line.isprintable()
    assert line.endswith(f"/api/a{control.encode('unicode_escape').decode()}b")
    line.encode()


def test_letters_of_every_language_stay() -> None:
    assert line_of("%s", "Ñandú 文書 документ 👋").endswith("Ñandú 文書 документ 👋")


@pytest.mark.parametrize("control", CONTROLS.values(), ids=CONTROLS)
def test_a_traceback_keeps_its_lines_and_has_no_control_characters(control: str) -> None:
    try:
        raise ValueError(f"a{control}b")
    except ValueError:
        lines = line_of("failed", error=sys.exc_info()[1]).split("\n")
    assert len(lines) >= 4
    assert all(line.isprintable() for line in lines)
