"""Commands on the locks of one namespace, ready to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.valkey.keys import key_of
from leasehold.valkey.transport import codec

if TYPE_CHECKING:
    from leasehold.valkey.scripts import Script
    from leasehold.valkey.transport.protocols import Word

# Programs ask for the same few locks again and again, so what a command says before its arguments, which is
# most of its bytes, is kept ready for so many names.
_KEPT = 16384
_KEPT_TAILS = 256


class Verb:
    """Turns a lock's name and some arguments into a command: ``opening``, the lock's keys, the arguments.

    The key ``bare`` is the lock's name in its namespace and nothing else; the others have a suffix.
    """

    __slots__ = ("_head", "_heads", "_namespace", "_opening", "_suffixes", "_tails")

    def __init__(
        self,
        namespace: str,
        opening: tuple[Word, ...],
        keys: tuple[str, ...],
        arguments: int,
        bare: str = "lock",
    ) -> None:
        self._namespace = namespace
        self._opening = opening
        self._suffixes = [b"" if key == bare else b":" + key.encode() for key in keys]
        self._heads: dict[str, bytes] = {}
        self._tails: dict[tuple[Word, ...], bytes] = {}
        count = b"*%d\r\n" % (len(opening) + len(keys) + arguments)
        # A template for `%`, so the percent signs in a script's own text are doubled.
        fixed = count + _packed(opening).replace(b"%", b"%%")
        self._head = fixed + b"".join(b"$%%d\r\n%%b%b\r\n" % end for end in self._suffixes)

    def pack(self, name: str, arguments: tuple[Any, ...]) -> bytes:
        """The command as it goes over the wire: the lock's part, the first argument, the others.

        The first is a token or a record, always fresh; the others are mostly the same as last time.
        """
        head = self._heads.get(name) or self._make_head(name)
        if not arguments:
            return head
        first = arguments[0].encode()
        others = arguments[1:]
        tail = b"" if not others else self._tails.get(others) or self._make_tail(others)
        return b"%b$%d\r\n%b\r\n%b" % (head, len(first), first, tail)

    def words(self, name: str, arguments: tuple[Word, ...]) -> tuple[Word, ...]:
        """The command for a driver that packs by itself."""
        lock = key_of(self._namespace, name)
        return (*self._opening, *[lock + suffix for suffix in self._suffixes], *arguments)

    def _make_head(self, name: str) -> bytes:
        lock = key_of(self._namespace, name)
        keys = [(len(lock) + len(suffix), lock) for suffix in self._suffixes]
        head = self._head % tuple(part for key in keys for part in key)
        if len(self._heads) >= _KEPT:
            self._heads.clear()
        self._heads[name] = head
        return head

    def _make_tail(self, others: tuple[Word, ...]) -> bytes:
        tail = _packed(others)
        if len(self._tails) >= _KEPT_TAILS:
            self._tails.clear()
        self._tails[others] = tail
        return tail


class ScriptVerb(Verb):
    """A verb that is a script, which the server usually knows by its SHA."""

    __slots__ = ("in_full",)

    def __init__(self, namespace: str, script: Script, bare: str = "lock") -> None:
        count, arguments = len(script.keys), len(script.arguments)
        super().__init__(namespace, (b"EVALSHA", script.sha, count), script.keys, arguments, bare)
        # For a server that has forgotten the script.
        self.in_full = Verb(namespace, (b"EVAL", script.source, count), script.keys, arguments, bare)


def _packed(words: tuple[Word, ...]) -> bytes:
    """``words`` as they go over the wire, without the "*N" that says how many there are."""
    packed = codec.pack(words)
    return packed[packed.index(b"$") :]
