"""The proxy's frame splitter, against hiredis and every way to chunk a stream."""

from __future__ import annotations

import hiredis
import pytest
from tests.support.resp import FrameSplitter

FRAMES = [
    b"+OK\r\n",
    b"$5\r\nhello\r\n",
    b"$4\r\n\r\n>1\r\n",  # a bulk that looks like protocol
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n#t\r\n",
    b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n,1.5\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
    b"~2\r\n:1\r\n:2\r\n",
    b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"-ERR no\r\n",
    b"PING\r\n",
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_frames_come_out_whole_however_the_stream_is_chunked(size: int) -> None:
    stream = b"".join(FRAMES)
    splitter = FrameSplitter()
    got = [f for at in range(0, len(stream), size) for f in splitter.feed(stream[at : at + size])]
    assert got == FRAMES
    assert not splitter.rest
    assert not splitter.is_opaque


def test_hiredis_agrees_on_where_replies_end() -> None:
    replies = [f for f in FRAMES if not f.startswith((b"PING", b"|"))]
    for frame in FrameSplitter().feed(b"".join(replies)):
        reader = hiredis.Reader()
        reader.feed(frame)
        reader.gets()
        assert not reader.has_data(), frame


def test_what_is_not_resp_is_passed_on_chunk_by_chunk() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"\x16\x03\x01") == [b"\x16\x03\x01"]
    assert splitter.feed(b"*1\r\n") == [b"*1\r\n"]
