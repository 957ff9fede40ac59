"""Validates arguments before anything is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import Holder, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAME_BYTES = 512
MIN_TTL = 0.01
MAX_TTL = 24 * 3600.0
MAX_HOLDER_BYTES = 2048
MAX_NAMES = 256
# Lua counts in doubles, exactly up to 2**53. A counter that starts at half of that cannot get there.
MAX_FENCE = 2**52
# Some thirty years: longer than any wait, and far from where adding to a clock loses precision.
MAX_WAIT = 1e9
_NUMBERS = frozenset({int, float})


def client_closed() -> InvalidRequest:
    """Return the error for a call of a client that has been closed."""
    return InvalidRequest("this client is closed; open a new one")


def check_request(name: str, ttl: float, wait: float | None, mode: str) -> None:
    """Check the arguments that every request has; with a short path for common ones, because it runs very often."""
    if not (type(name) is str and name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME_BYTES):
        check_name(name)
    if not (type(ttl) in _NUMBERS and MIN_TTL <= ttl <= MAX_TTL):
        check_ttl(ttl)
    if not (wait is None or (type(wait) in _NUMBERS and 0 <= wait <= MAX_WAIT)):
        check_wait(wait)
    if mode != "exclusive":
        check_mode(mode)


def check_name(name: str) -> str:
    """Return ``name`` if it can name a lock."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a lock's name must be text, not {type(name).__name__}")
    if not name:
        raise InvalidRequest("a lock's name must not be empty")
    if "\0" in name:
        raise InvalidRequest("a lock's name must not contain NUL")
    # A character takes at most four bytes, so short names need not be encoded to be counted.
    if len(name) * 4 > MAX_NAME_BYTES or not name.isascii():
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise InvalidRequest("a lock's name must be valid Unicode, without lone surrogates") from error
        if size > MAX_NAME_BYTES:
            raise InvalidRequest(
                f"a lock's name may take {MAX_NAME_BYTES} bytes in UTF-8, this one takes {size}"
            )
    return name


def check_ttl(ttl: float) -> float:
    """Return ``ttl`` if a lease may last that long."""
    if not (_is_number(ttl) and MIN_TTL <= ttl <= MAX_TTL):
        raise InvalidRequest(
            f"ttl must be a number of seconds from {MIN_TTL:g} to {MAX_TTL:g} (24 hours), not {ttl!r}"
        )
    return ttl


def check_wait(wait: float | None) -> float | None:
    """Return ``wait`` if it is a time to wait, or None for no limit."""
    if wait is not None and not (_is_number(wait) and 0 <= wait <= MAX_WAIT):
        raise InvalidRequest(
            f"wait must be a number of seconds from 0 (ask once) to {MAX_WAIT:g}, or None (no limit), not {wait!r}"
        )
    return wait


def check_max_hold(max_hold: float | None) -> float | None:
    """Return ``max_hold`` if it is a duration, or None for no limit."""
    return None if max_hold is None else check_duration(max_hold, "max_hold")


def check_duration(seconds: float, what: str) -> float:
    """Return ``seconds`` if it is a duration; ``what`` is the argument's name."""
    if not (_is_number(seconds) and 0 < seconds <= MAX_WAIT):
        raise InvalidRequest(
            f"{what} must be a number of seconds above 0, at most {MAX_WAIT:g}, not {seconds!r}"
        )
    return seconds


def check_fence(fence: int, what: str) -> int:
    """Return ``fence`` if it can be one; ``what`` is the argument's name."""
    if type(fence) is not int or not 0 <= fence <= MAX_FENCE:
        raise InvalidRequest(f"{what} must be a whole number from 0 to 2**52, or None, not {fence!r}")
    return fence


def check_mode(mode: str) -> None:
    """Raise `InvalidRequest` for an unknown mode."""
    if mode not in {"exclusive", "shared"}:
        raise InvalidRequest(f"mode must be 'exclusive' or 'shared', not {mode!r}")


def check_names(names: Iterable[str]) -> list[str]:
    """Return ``names`` as a list if they name locks that can be held together."""
    if isinstance(names, str):
        raise InvalidRequest("lock_all takes several names, not one text; use `lock` for a single lock")
    try:
        several = list(names)
    except TypeError as error:
        raise InvalidRequest(f"lock_all takes several names, not {type(names).__name__}") from error
    if not 1 <= len(several) <= MAX_NAMES:
        raise InvalidRequest(f"lock_all takes 1 to {MAX_NAMES} names, not {len(several)}")
    for name in several:
        check_name(name)
    if twice := [name for name in several if several.count(name) > 1]:
        raise InvalidRequest(f"lock_all was given {twice[0]!r} more than once")
    return several


def check_pattern(pattern: str) -> str:
    """Return ``pattern`` if names can be compared with it."""
    if not isinstance(pattern, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a pattern must be text, not {type(pattern).__name__}")
    try:
        size = len(pattern.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest("a pattern must be valid Unicode, without lone surrogates") from error
    if not 1 <= size <= MAX_NAME_BYTES or "\0" in pattern:
        raise InvalidRequest(
            f"a pattern is 1 to {MAX_NAME_BYTES} bytes of text without NUL, with *, ? and [] as in a shell"
        )
    return pattern


def check_on_loss(on_loss: str) -> None:
    """Raise `InvalidRequest` for an unknown ``on_loss``."""
    if on_loss not in {"cancel", "signal"}:
        raise InvalidRequest(f"on_loss must be 'cancel' or 'signal', not {on_loss!r}")


def encode_holder(holder: Holder) -> str:
    """Return ``holder`` as the JSON that the record keeps."""
    if isinstance(holder, dict):
        for key, value in cast("dict[Any, Any]", holder).items():
            if not isinstance(key, str) or not (value is None or isinstance(value, str | int | float | bool)):
                raise InvalidRequest(
                    f"a holder must be flat: text, numbers, booleans or None, not {key!r}: {type(value).__name__}"
                )
    elif not isinstance(holder, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a holder must be text or a flat object, not {type(holder).__name__}")
    try:
        encoded = json.dumps(holder, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise InvalidRequest("a holder must be valid JSON: no NaN, no infinity") from error
    if len(encoded) > MAX_HOLDER_BYTES:
        raise InvalidRequest(
            f"a holder may take {MAX_HOLDER_BYTES} bytes as JSON, this one takes {len(encoded)}"
        )
    return encoded


def _is_number(value: object) -> bool:
    """Return whether ``value`` is a number; NaN fails the comparisons, and booleans are not durations."""
    return isinstance(value, int | float) and not isinstance(value, bool)
