"""The Redis protocol, by hiredis: packing commands and reading replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

import hiredis

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.valkey.transport.protocols import Word

NOTHING = object()
"""Returned by a reader while no reply is complete."""

# hiredis's own annotation says "a tuple of one"; any number is meant.
_pack_text = cast("Callable[[tuple[bytes | str, ...]], bytes]", hiredis.pack_command)  # pyright: ignore[reportUnknownMemberType]

Push = hiredis.PushNotification
ProtocolError = hiredis.ProtocolError
ReplyError = hiredis.ReplyError


def text_of(words: tuple[Word, ...]) -> tuple[bytes | str, ...]:
    """``words`` with each integer as its digits.

    hiredis 3.5 converts integers by itself, but reads through a null pointer if that conversion raises, and CPython
    runs signal handlers in it.
    """
    return tuple([b"%d" % word if isinstance(word, int) else word for word in words])


def pack(words: tuple[Word, ...]) -> bytes:
    """A command in the encoding of the protocol."""
    return _pack_text(text_of(words))


class Reader(Protocol):
    """Collects bytes and returns replies; an error reply is returned as an exception."""

    def feed(self, data: bytes, /) -> None:
        """Add what was received."""
        ...

    def gets(self) -> Any:
        """The next complete reply, or `NOTHING`."""
        ...


def new_reader() -> Reader:
    """A reader for one connection."""
    return cast("Reader", hiredis.Reader(notEnoughData=NOTHING))
