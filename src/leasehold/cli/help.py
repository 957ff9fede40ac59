"""Formats the help of commands to the width of the terminal."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING

from leasehold.cli.exit_codes import AFTER_SIGNAL, MEANINGS
from leasehold.cli.parser import Argument, Command, Group, Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HELP = Option("-h, --help", "Show this message.", bool)
_VERSION = Option("--version", "Show the version.", bool)
# Explanations begin in this column at the latest; after a longer name, on a line of their own.
_WIDEST = 26


def format_help(what: Command | Group) -> str:
    """The help text of a command or a group."""
    width = _width()
    if isinstance(what, Group):
        usage = "COMMAND …"
        options = [_VERSION, _HELP] if " " not in what.path else [_HELP]
        members = [(name, member.about.partition("\n")[0]) for name, member in what.members.items()]
        sections = [_section("Commands", members, width), *_options(options, width)]
    else:
        usage = " ".join(map(_usage, what.arguments))
        places = [(argument.metavar, argument.help + _default(argument)) for argument in what.arguments]
        sections = [_section("Arguments", places, width), *_options([*what.options, _HELP], width)]
    parts = [f"Usage: {what.path} [OPTIONS] {usage}".rstrip(), _paragraphs(what.about, width), *sections]
    if what.has_exit_codes:
        parts.append(_exit_codes(width))
    return "\n\n".join(part for part in parts if part) + "\n"


def _usage(argument: Argument) -> str:
    name = argument.metavar
    if name == "COMMAND":  # the dashes separate its options from ours
        name = "-- COMMAND"
    name += "…" if argument.is_many else ""
    return name if argument.is_required else f"[{name}]"


def _options(options: Iterable[Option], width: int) -> list[str]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for option in options:
        groups.setdefault(option.group, []).append((option.syntax, option.help + _default(option)))
    return [_section(title, rows, width) for title, rows in groups.items()]


def _default(what: Argument | Option) -> str:
    facts: list[str] = []
    if isinstance(what, Option) and what.variable:
        facts.append(f"env var: {what.variable}")
    if what.default is not None:
        facts.append(f"default: {what.default}")
    return f" [{'; '.join(facts)}]" if facts else ""


def _section(title: str, rows: Sequence[tuple[str, str]], width: int) -> str:
    if not rows:
        return ""
    column = min(max(len(name) for name, _ in rows), _WIDEST) + 4
    lines = [f"{title}:"]
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(width - column, 20), break_on_hyphens=False)
        first = f"  {name}".ljust(column)
        if len(first) > column:
            lines.append(first)
            first = " " * column
        lines.append(f"{first}{wrapped[0]}")
        lines += [" " * column + line for line in wrapped[1:]]
    return "\n".join(lines)


def _paragraphs(about: str, width: int) -> str:
    paragraphs = (" ".join(paragraph.split()) for paragraph in about.split("\n\n"))
    return "\n\n".join(textwrap.fill(text, width, break_on_hyphens=False) for text in paragraphs)


def _exit_codes(width: int) -> str:
    rows = [(str(code.value), meaning) for code, meaning in MEANINGS.items()]
    rows.append((f"{AFTER_SIGNAL}+n", "run: the command was ended by signal n"))
    rest = (
        "run exits with the exit code of the command. "
        "Errors go to stderr: one line, or with --json one object with code and message."
    )
    return f"{_section('Exit codes', rows, width)}\n\n{textwrap.fill(rest, width)}"


def _width() -> int:
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        return max(int(chosen), 40)
    try:
        return max(os.get_terminal_size(sys.__stdout__.fileno()).columns, 40) if sys.__stdout__ else 80
    except (OSError, ValueError):  # not a terminal
        return 80
