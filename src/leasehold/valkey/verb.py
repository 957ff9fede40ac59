"""One script, applied to the locks of one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from leasehold.valkey import codec
from leasehold.valkey.keys import key_of

if TYPE_CHECKING:
    from leasehold.valkey.scripts import Script
    from leasehold.valkey.wire import Word

# Programs ask for the same few locks again and again, so what a command says before its arguments, which is
# most of its bytes, is kept ready for so many names.
_KEPT = 16384
_KEPT_TAILS = 256


class Verb:
    """Turns a lock's name and a script's arguments into a command."""

    __slots__ = ("_head", "_heads", "_namespace", "_suffixes", "_tails", "script")

    def __init__(self, script: Script, namespace: str) -> None:
        self.script = script
        self._namespace = namespace
        self._suffixes = [b"" if key == "lock" else b":" + key.encode() for key in script.keys]
        self._heads: dict[str, bytes] = {}
        self._tails: dict[tuple[Word, ...], bytes] = {}
        words = 3 + len(script.keys) + len(script.arguments)
        keys = b"".join(b"$%%d\r\n%%b%b\r\n" % suffix for suffix in self._suffixes)
        start = codec.pack((b"EVALSHA", script.sha, len(script.keys)))
        self._head = b"*%d\r\n" % words + start[start.index(b"$") :] + keys

    def pack(self, name: str, arguments: tuple[Word, ...]) -> bytes:
        """The command as it goes over the wire: the lock's part, the first argument, the others.

        The first is a token or a record, always fresh; the others are mostly the same as last time.
        """
        head = self._heads.get(name) or self._make_head(name)
        if not arguments:
            return head
        first = cast("str", arguments[0]).encode()
        others = arguments[1:]
        tail = b"" if not others else self._tails.get(others) or self._make_tail(others)
        return b"%b$%d\r\n%b\r\n%b" % (head, len(first), first, tail)

    def words(self, name: str, arguments: tuple[Word, ...]) -> tuple[Word, ...]:
        """The command for a driver that packs by itself."""
        return (b"EVALSHA", self.script.sha, *self._keys(name), *arguments)

    def words_in_full(self, name: str, arguments: tuple[Word, ...]) -> tuple[Word, ...]:
        """The same for a server that has forgotten the script."""
        return (b"EVAL", self.script.source, *self._keys(name), *arguments)

    def key(self, name: str, part: str) -> bytes:
        """One of the lock's other keys."""
        return key_of(self._namespace, name) + b":" + part.encode()

    def _keys(self, name: str) -> tuple[Word, ...]:
        lock = key_of(self._namespace, name)
        return (len(self._suffixes), *[lock + suffix for suffix in self._suffixes])

    def _make_head(self, name: str) -> bytes:
        lock = key_of(self._namespace, name)
        sizes = [(len(lock) + len(suffix), lock) for suffix in self._suffixes]
        head = self._head % tuple(part for size in sizes for part in size)
        if len(self._heads) >= _KEPT:
            self._heads.clear()
        self._heads[name] = head
        return head

    def _make_tail(self, others: tuple[Word, ...]) -> bytes:
        # What hiredis packs begins with "*N\r\n"; the count that covers the whole command is in the head.
        packed = codec.pack(others)
        tail = packed[packed.index(b"$") :]
        if len(self._tails) >= _KEPT_TAILS:
            self._tails.clear()
        self._tails[others] = tail
        return tail
