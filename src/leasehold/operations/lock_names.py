"""The names of locks, made from a pattern and values so that different things never get the same name."""

from __future__ import annotations

import functools
import keyword
import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from leasehold.core import validation
from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMESPACE = "lock:"
_LITERAL = re.compile(r"[^\s{}%:]+")
_PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KINDS = "text, a whole number, a UUID or a date"


@dataclass(frozen=True, slots=True)
class Pattern:
    """``deal:{deal_id}``: parts between colons, each of them fixed or one parameter in braces.

    A parameter is a whole part and a colon inside a value is written as ``%3A``, so ``("a:b", "c")`` and
    ``("a", "b:c")`` make two names.
    """

    text: str
    parameters: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Pattern:
        """The pattern that ``text`` describes. A leading ``lock:`` is the client's to write, and is left out."""
        if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(f"a pattern is text like 'deal:{{deal_id}}', not {text!r}")
        return cls._parse(text)

    @classmethod
    @functools.lru_cache(1024)  # asked for every lock
    def _parse(cls, text: str) -> Pattern:
        bare = text.removeprefix(_NAMESPACE)
        parameters: list[str] = []
        for part in bare.split(":"):
            parameter = _PARAMETER.fullmatch(part)
            if parameter is None and not _LITERAL.fullmatch(part):
                raise InvalidRequest(
                    f"the pattern {text!r} is malformed at {part!r}: its parts, between colons, are each either fixed "
                    "text without spaces, braces and percent signs, or one parameter in braces, as in 'deal:{deal_id}'"
                )
            if parameter is not None:
                parameters.append(parameter[1])
        if odd := [each for each in parameters if keyword.iskeyword(each) or parameters.count(each) > 1]:
            reason = "comes twice" if parameters.count(odd[0]) > 1 else "is a word of Python's own"
            raise InvalidRequest(f"the pattern {text!r} is malformed: {{{odd[0]}}} {reason}")
        validation.check_name(bare)
        return cls(bare, tuple(parameters))

    def fill(self, values: Mapping[str, object]) -> str:
        """The name for ``values``, one for each parameter and no more."""
        self.check_parameters(values)
        written = {parameter: write(parameter, values[parameter]) for parameter in self.parameters}
        return validation.check_name(_PARAMETER.sub(lambda found: written[found[1]], self.text))

    def matches(self, name: str) -> bool:
        """Whether ``name`` can have been made from this pattern."""
        parts, given = self.text.split(":"), name.split(":")
        return len(parts) == len(given) and all(
            part == said or (_PARAMETER.fullmatch(part) is not None and said != "")
            for part, said in zip(parts, given, strict=True)
        )

    def check_parameters(self, given: Iterable[str]) -> None:
        """Raise `InvalidRequest` unless ``given`` are the parameters of this pattern."""
        names = list(given)
        if faults := [f"{name} is missing" for name in self.parameters if name not in names] + [
            f"there is no {name}" for name in names if name not in self.parameters
        ]:
            raise InvalidRequest(f"{self.text!r} takes {_listed(self.parameters)}: {', '.join(faults)}")


def write(what: str, value: object) -> str:
    """``value`` as a part of a name: the same text for the same thing, whichever way it came.

    42 and ``"42"`` are the same, because ids come as numbers from a database and as text from a message.
    Refused is what has several spellings (floats, decimals, datetimes, padded text) or says nothing (None, "").
    """
    text: str | None = None
    if isinstance(value, str):
        text = str.__str__(value).replace("%", "%25").replace(":", "%3A")
    elif isinstance(value, int) and not isinstance(value, bool):
        text = int.__repr__(value)
    elif isinstance(value, UUID) or (isinstance(value, date) and not isinstance(value, datetime)):
        text = str(value)
    if text is None:
        shown = "None" if value is None else f"{type(value).__name__} {value!r}"[:80]
        raise InvalidRequest(f"{what} must be {_KINDS}, not {shown}")
    if not text or text != text.strip() or not text.isprintable():
        raise InvalidRequest(
            f"{what} must not be empty, nor begin or end with spaces, nor hold what cannot be printed: {value!r}"[
                :200
            ]
        )
    return text


def _listed(parameters: tuple[str, ...]) -> str:
    return ", ".join(parameters) if parameters else "no parameters"
