"""Builds lock names from a pattern and values, so that different values never give the same name."""

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
class LockNamePattern:
    """``deal:{deal_id}``: parts between colons, each of them fixed or one parameter in braces.

    A parameter is a whole part and a colon inside a value is escaped as ``%3A``, so ``("a:b", "c")`` and
    ``("a", "b:c")`` give different names.
    """

    text: str
    parameters: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> LockNamePattern:
        """Parse ``text``. A leading ``lock:`` is dropped, because the client adds its namespace itself."""
        if not isinstance(text, str) or not text:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(f"a pattern is text like 'deal:{{deal_id}}', not {text!r}")
        return cls._parse(text)

    @classmethod
    @functools.lru_cache(1024)  # called for every lock
    def _parse(cls, text: str) -> LockNamePattern:
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
            reason = "occurs twice" if parameters.count(odd[0]) > 1 else "is a Python keyword"
            raise InvalidRequest(f"the pattern {text!r} is malformed: {{{odd[0]}}} {reason}")
        validation.check_name(bare)
        return cls(bare, tuple(parameters))

    def fill(self, values: Mapping[str, object]) -> str:
        """The name for ``values``, which must have exactly the parameters."""
        self.check_parameters(values)
        parts = {parameter: name_part(parameter, values[parameter]) for parameter in self.parameters}
        return validation.check_name(_PARAMETER.sub(lambda found: parts[found[1]], self.text))

    def matches(self, name: str) -> bool:
        """Whether ``name`` fits this pattern."""
        parts, given = self.text.split(":"), name.split(":")
        return len(parts) == len(given) and all(
            part == value or (_PARAMETER.fullmatch(part) is not None and value != "")
            for part, value in zip(parts, given, strict=True)
        )

    def check_parameters(self, given: Iterable[str]) -> None:
        """Raise `InvalidRequest` unless ``given`` are the parameters of this pattern."""
        names = list(given)
        if faults := [f"{name} is missing" for name in self.parameters if name not in names] + [
            f"{name} is unknown" for name in names if name not in self.parameters
        ]:
            raise InvalidRequest(
                f"{self.text!r} takes {_format_parameters(self.parameters)}: {', '.join(faults)}"
            )


def name_part(what: str, value: object) -> str:
    """``value`` as a part of a name: the same text for the same value, of any type.

    42 and ``"42"`` are the same, because ids come as numbers from a database and as text from a message.
    Values with several spellings (floats, decimals, datetimes, padded text) and empty ones (None, "") are refused.
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
            f"{what} must be printable text, not empty, without spaces around it, not {value!r}"[:200]
        )
    return text


def _format_parameters(parameters: tuple[str, ...]) -> str:
    return ", ".join(parameters) if parameters else "no parameters"
