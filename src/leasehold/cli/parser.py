"""What a command takes, and how to read it from the words on the command line.

Written out instead of taken from a framework: those take longer to load than a lock takes to get, and hooks and cron
jobs would pay for it each time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.cli.errors import CommandError
from leasehold.cli.exit_codes import Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HELP = ("-h", "--help")
_KINDS = {float: "number", int: "whole number"}


class Argument(NamedTuple):
    """A value that is known by its place. The last one of a command may stand for several values."""

    metavar: str
    help: str
    default: str | None = None
    is_required: bool = True
    is_many: bool = False

    @property
    def key(self) -> str:
        """The parameter that it becomes."""
        return self.metavar.lower()


class Option(NamedTuple):
    """A value that is known by its flag; a ``kind`` of bool has no value. ``variable`` is of the environment."""

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
        """The parameter that it becomes."""
        return self.parameter or self.flag.removeprefix("--").replace("-", "_")

    @property
    def spelled(self) -> str:
        """As the help shows it."""
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
        """What it does: a summary, and the rest after an empty line."""
        return self.run.__doc__ or ""


class Group:
    """Commands that share their first words."""

    def __init__(self, path: str, about: str, *, has_exit_codes: bool = False) -> None:
        self.path = path
        self.about = about
        self.has_exit_codes = has_exit_codes
        self.members: dict[str, Command | Group] = {}

    def command(
        self, *takes: Argument | Option, has_exit_codes: bool = False
    ) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
        """Makes the function below a command, called with all that it takes by name."""

        def add(run: Callable[..., int | None]) -> Callable[..., int | None]:
            arguments = tuple(each for each in takes if isinstance(each, Argument))
            options = tuple(each for each in takes if isinstance(each, Option))
            name = run.__name__
            self.members[name] = Command(f"{self.path} {name}", run, arguments, options, has_exit_codes)
            return run

        return add


def misuse(message: str, path: str) -> CommandError:
    """What is wrong with the words, and where to read more."""
    return CommandError(Exit.USAGE, "invalid_request", f"{message} (see {path} --help)")


def find_member(group: Group, words: Sequence[str]) -> Command | Group:
    """The command or group that the first word names."""
    name = words[0]
    if name.startswith("-"):
        raise misuse(f"No such option: {name}", group.path)
    if name not in group.members:
        raise misuse(f"No such command {name!r}{_perhaps(name, group.members)}", group.path)
    return group.members[name]


def parse(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """The parameters of the command, by name; None if its help is asked for."""
    given: dict[str, str | bool] = {}
    places: list[str] = []
    flags = {option.flag: option for option in command.options}
    rest = iter(words)
    for word in rest:
        if word == "--":
            places += rest
        elif word in HELP:
            return None
        elif not word.startswith("-") or word == "-":
            places.append(word)
        else:
            flag, has_value, value = word.partition("=")
            option = flags.get(flag)
            if option is None:
                raise misuse(_no_such_option(command, flag, flags), command.path)
            if option.kind is bool:
                if has_value:
                    raise misuse(f"Option {flag!r} does not take a value", command.path)
                given[flag] = True
            else:
                found = value if has_value else next(rest, None)
                if found is None:
                    raise misuse(f"Option {flag!r} requires a value", command.path)
                given[flag] = found
    values = {option.key: _value(command, option, given.get(option.flag)) for option in command.options}
    return values | _placed(command, places)


def _value(command: Command, option: Option, given: str | bool | None) -> Any:  # noqa: FBT001 - a value, not a switch
    source = f"{option.flag!r}"
    if given is None and option.variable and (found := os.environ.get(option.variable)):
        given, source = found, f"{source} ({option.variable})"
    if given is None:
        return False if option.kind is bool else option.default
    try:
        return option.kind(given)
    except ValueError:
        message = f"Invalid value for {source}: {given!r} is not a {_KINDS[option.kind]}"
        raise misuse(message, command.path) from None


def _placed(command: Command, places: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for argument in command.arguments:
        if argument.is_required and not places:
            raise misuse(f"Missing argument {argument.metavar!r}", command.path)
        if argument.is_many:
            values[argument.key], places = places, []
        else:
            values[argument.key] = places.pop(0) if places else argument.default
    if places:
        raise misuse(f"Got unexpected extra argument ({' '.join(places)})", command.path)
    return values


def _no_such_option(command: Command, flag: str, flags: Iterable[str]) -> str:
    message = f"No such option: {flag}{_perhaps(flag, flags)}"
    if any(argument.metavar == "COMMAND" for argument in command.arguments):
        message += "; options of the command come after --"
    return message


def _perhaps(word: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only for those who have mistyped

    similar = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {similar[0]}?)" if similar else ""
