"""Cuts a RESP2/RESP3 byte stream into whole frames, for any chunks."""

from __future__ import annotations

_SIMPLE = frozenset(b"+-:_#,(")
_SIZED = frozenset(b"$=!")
_AGGREGATE = frozenset(b"*~>")


class FrameSplitter:
    """Feed it chunks, get whole top-level frames. Requests and replies alike.

    A stream that is not RESP (TLS, say) is passed on chunk by chunk: `is_opaque` says so.
    """

    def __init__(self) -> None:
        self.rest = bytearray()
        self.is_opaque = False
        self._at = 0  # where in `rest` the next value starts
        self._missing = 1  # values still missing from the current frame

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the frames that they complete."""
        self.rest += data
        frames: list[bytes] = []
        start = 0
        while not self.is_opaque and self._step(start):
            if self._missing == 0:
                frames.append(bytes(self.rest[start : self._at]))
                start, self._missing = self._at, 1
        if self.is_opaque and start < len(self.rest):
            frames.append(bytes(self.rest[start:]))
            start = len(self.rest)
        del self.rest[:start]
        self._at -= min(start, self._at)
        return frames

    def _step(self, start: int) -> bool:
        """Go past one value (of an aggregate: its header). False if it is not all there yet."""
        buffer = self.rest
        if self._at >= len(buffer):
            return False
        kind = buffer[self._at]
        is_inline = self._at == start and chr(kind).isascii() and chr(kind).isalpha()
        if not (is_inline or kind in _SIMPLE or kind in _SIZED or kind in _AGGREGATE or kind in b"%|"):
            self.is_opaque = True
            return False
        line_end = buffer.find(b"\n", self._at)
        if line_end < 0:
            return False
        end = line_end + 1
        if is_inline or kind in _SIMPLE:
            self._missing -= 1
        else:
            try:
                size = int(buffer[self._at + 1 : line_end])
            except ValueError:
                self.is_opaque = True
                return False
            if kind in _SIZED:
                end += size + 2 if size >= 0 else 0
                if end > len(buffer):
                    return False
                self._missing -= 1
            elif kind in _AGGREGATE:
                self._missing += max(size, 0) - 1
            elif kind == ord("%"):
                self._missing += 2 * size - 1
            else:  # attributes: pairs in front of the value they describe
                self._missing += 2 * size
        self._at = end
        return True
