"""Declares the arguments and options of commands, and parses the command line.

Not argparse, because hooks and cron jobs pay its import on each start (5 to 15 ms, more than a lock takes), and
because the COMMAND after ``--`` and options between several PATHs would need workarounds in it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.cli.errors import CliError
from leasehold.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HELP = ("-h", "--help")
_KINDS = {float: "number", int: "whole number"}


class Argument(NamedTuple):
    """A positional value. The last one of a command may take several values."""

    metavar: str
    help: str
    default: str | None = None
    is_required: bool = True
    is_many: bool = False

    @property
    def key(self) -> str:
        """The name of its parameter."""
        return self.metavar.lower()


class Option(NamedTuple):
    """An option; one of ``kind`` bool takes no value. ``variable`` is an environment variable with its default."""

    flag: str
    help: str
    kind: type = str
    default: Any = None
    variable: str | None = None
    metavar: str | None = None
    group: str = "Options"
    parameter: str | None = None

    @property
    def key(self) -> str:
        """The name of its parameter."""
        return self.parameter or self.flag.removeprefix("--").replace("-", "_")

    @property
    def syntax(self) -> str:
        """The flag and its value as the help shows them."""
        if self.kind is bool:
            return self.flag
        return f"{self.flag} {self.metavar or self.key.rpartition('_')[2].upper()}"


class Command(NamedTuple):
    """One command: its docstring is its help."""

    path: str
    run: Callable[..., int | None]
    arguments: tuple[Argument, ...]
    options: tuple[Option, ...]
    has_exit_codes: bool

    @property
    def about(self) -> str:
        """A summary, and the details after an empty line."""
        return self.run.__doc__ or ""


class Group:
    """Commands with a common prefix."""

    def __init__(self, path: str, about: str, *, has_exit_codes: bool = False) -> None:
        self.path = path
        self.about = about
        self.has_exit_codes = has_exit_codes
        self.members: dict[str, Command | Group] = {}

    def command(
        self, *takes: Argument | Option, has_exit_codes: bool = False
    ) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
        """Register the decorated function as a command, which is called with keyword arguments."""

        def add(run: Callable[..., int | None]) -> Callable[..., int | None]:
            arguments = tuple(each for each in takes if isinstance(each, Argument))
            options = tuple(each for each in takes if isinstance(each, Option))
            name = run.__name__
            self.members[name] = Command(f"{self.path} {name}", run, arguments, options, has_exit_codes)
            return run

        return add


def usage_error(message: str, path: str) -> CliError:
    """The error for a wrong command line, with a pointer to the help."""
    return CliError(ExitCode.USAGE, "invalid_request", f"{message} (see {path} --help)")


def find_member(group: Group, words: Sequence[str]) -> Command | Group:
    """The command or group named by the first word."""
    name = words[0]
    if name.startswith("-"):
        raise usage_error(f"No such option: {name}", group.path)
    if name not in group.members:
        raise usage_error(f"No such command {name!r}{_suggest(name, group.members)}", group.path)
    return group.members[name]


def parse(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """The parameters of the command by name; None if the help is requested."""
    given: dict[str, str | bool] = {}
    positionals: list[str] = []
    flags = {option.flag: option for option in command.options}
    rest = iter(words)
    for word in rest:
        if word == "--":
            positionals += rest
        elif word in HELP:
            return None
        elif not word.startswith("-") or word == "-":
            positionals.append(word)
        else:
            flag, has_value, value = word.partition("=")
            option = flags.get(flag)
            if option is None:
                raise usage_error(_no_such_option(command, flag, flags), command.path)
            if option.kind is bool:
                if has_value:
                    raise usage_error(f"Option {flag!r} does not take a value", command.path)
                given[flag] = True
            else:
                found = value if has_value else next(rest, None)
                if found is None:
                    raise usage_error(f"Option {flag!r} requires a value", command.path)
                given[flag] = found
    values = {
        option.key: _option_value(command, option, given.get(option.flag)) for option in command.options
    }
    return values | _assign_arguments(command, positionals)


def _option_value(command: Command, option: Option, given: str | bool | None) -> Any:  # noqa: FBT001 - a value, not a switch
    source = f"{option.flag!r}"
    if given is None and option.variable and (found := os.environ.get(option.variable)):
        given, source = found, f"{source} ({option.variable})"
    if given is None:
        return False if option.kind is bool else option.default
    try:
        return option.kind(given)
    except ValueError:
        message = f"Invalid value for {source}: {given!r} is not a {_KINDS[option.kind]}"
        raise usage_error(message, command.path) from None


def _assign_arguments(command: Command, positionals: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for argument in command.arguments:
        if argument.is_required and not positionals:
            raise usage_error(f"Missing argument {argument.metavar!r}", command.path)
        if argument.is_many:
            values[argument.key], positionals = positionals, []
        else:
            values[argument.key] = positionals.pop(0) if positionals else argument.default
    if positionals:
        raise usage_error(f"Got unexpected extra argument ({' '.join(positionals)})", command.path)
    return values


def _no_such_option(command: Command, flag: str, flags: Iterable[str]) -> str:
    message = f"No such option: {flag}{_suggest(flag, flags)}"
    if any(argument.metavar == "COMMAND" for argument in command.arguments):
        message += "; options of the command come after --"
    return message


def _suggest(word: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only after a typo

    similar = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {similar[0]}?)" if similar else ""
