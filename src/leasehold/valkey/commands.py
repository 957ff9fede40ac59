"""Commands on the locks of one namespace, packed once and reused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.valkey.keys import key_of
from leasehold.valkey.transport import codec

if TYPE_CHECKING:
    from leasehold.valkey.scripts import Effect, Script
    from leasehold.valkey.transport.protocols import Word

# Programs use the same few locks again and again, so the part of a command before its arguments, which is
# most of its bytes, is cached for this many names.
_CACHED_HEADS = 16384
_CACHED_TAILS = 256


class Command:
    """Turns a lock's name and some arguments into a command: ``opening``, the lock's keys, the arguments.

    The key ``bare`` is the lock's name in its namespace without a suffix; the others have one.
    """

    __slots__ = ("_head", "_heads", "_namespace", "_opening", "_suffixes", "_tails", "effect")

    def __init__(
        self,
        namespace: str,
        opening: tuple[Word, ...],
        keys: tuple[str, ...],
        arguments: int,
        bare: str = "lock",
        effect: Effect = "other",
    ) -> None:
        self.effect: Effect = effect
        self._namespace = namespace
        self._opening = opening
        self._suffixes = [b"" if key == bare else b":" + key.encode() for key in keys]
        self._heads: dict[str, bytes] = {}
        self._tails: dict[tuple[Word, ...], bytes] = {}
        count = b"*%d\r\n" % (len(opening) + len(keys) + arguments)
        # A template for `%`, so the percent signs in a script's source are doubled.
        fixed = count + _packed(opening).replace(b"%", b"%%")
        self._head = fixed + b"".join(b"$%%d\r\n%%b%b\r\n" % end for end in self._suffixes)

    def pack(self, name: str, arguments: tuple[Any, ...]) -> bytes:
        """The encoded command: the lock's part, the first argument, the others.

        The first is a token or a record, always new; the others mostly repeat.
        """
        head = self._heads.get(name) or self._make_head(name)
        if not arguments:
            return head
        first = arguments[0].encode()
        others = arguments[1:]
        tail = b"" if not others else self._tails.get(others) or self._make_tail(others)
        return b"%b$%d\r\n%b\r\n%b" % (head, len(first), first, tail)

    def words(self, name: str, arguments: tuple[Word, ...]) -> tuple[bytes | str, ...]:
        """The command for a driver that encodes by itself."""
        lock = key_of(self._namespace, name)
        return codec.text_of((*self._opening, *[lock + suffix for suffix in self._suffixes], *arguments))

    def _make_head(self, name: str) -> bytes:
        lock = key_of(self._namespace, name)
        keys = [(len(lock) + len(suffix), lock) for suffix in self._suffixes]
        head = self._head % tuple(part for key in keys for part in key)
        if len(self._heads) >= _CACHED_HEADS:
            self._heads.clear()
        self._heads[name] = head
        return head

    def _make_tail(self, others: tuple[Word, ...]) -> bytes:
        tail = _packed(others)
        if len(self._tails) >= _CACHED_TAILS:
            self._tails.clear()
        self._tails[others] = tail
        return tail


class ScriptCommand(Command):
    """A script, sent as the SHA by which the server usually knows it."""

    __slots__ = ("with_source",)

    def __init__(
        self, namespace: str, script: Script, bare: str = "lock", *, effect: Effect | None = None
    ) -> None:
        effect = effect or script.effect
        count, keys, arguments = len(script.keys), script.keys, len(script.arguments)
        super().__init__(namespace, (b"EVALSHA", script.sha, count), keys, arguments, bare, effect)
        # For a server that has forgotten the script.
        self.with_source = Command(namespace, (b"EVAL", script.source, count), keys, arguments, bare, effect)


class WordsCommand(Command):
    """A command that gets all its words from the caller, but for the opening."""

    __slots__ = ()

    def __init__(self, opening: tuple[Word, ...], effect: Effect) -> None:
        super().__init__("", opening, (), 0, effect=effect)

    def pack(self, name: str, arguments: tuple[Any, ...]) -> bytes:  # noqa: ARG002 - as for one lock
        """The encoded command."""
        return codec.pack((*self._opening, *arguments))

    def words(self, name: str, arguments: tuple[Word, ...]) -> tuple[bytes | str, ...]:  # noqa: ARG002 - as for one lock
        """The command for a driver that encodes by itself."""
        return codec.text_of((*self._opening, *arguments))


class ManyLocksCommand(WordsCommand):
    """A script on several locks. Its arguments begin with the number of keys, and the keys."""

    __slots__ = ("with_source",)

    def __init__(self, script: Script) -> None:
        super().__init__((b"EVALSHA", script.sha), script.effect)
        self.with_source = WordsCommand((b"EVAL", script.source), script.effect)


def _packed(words: tuple[Word, ...]) -> bytes:
    """``words`` encoded, without the "*N" that counts them."""
    packed = codec.pack(words)
    return packed[packed.index(b"$") :]
