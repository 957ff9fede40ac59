"""A sentinel that says what the test wants: a real one cannot be made to lie."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Self

import hiredis

from tests.support.loop_thread import LoopThread
from tests.support.servers import reserve_port


class ScriptedSentinel:
    """Speaks as much of the protocol as clients of a sentinel use. May be told what to say at any time."""

    def __init__(self, service: str, primary_port: int, *, epoch: int = 1) -> None:
        self.service = service
        self.primary: tuple[str, int] = ("127.0.0.1", primary_port)
        self.epoch = epoch
        self.others: list[int] = []
        self.refuses_subscriptions = False
        self.searches = 0
        """How often it was asked for the primary."""
        self.subscribers: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._reservation = reserve_port()
        self._thread = LoopThread("scripted-sentinel")
        self._server = self._thread.run(asyncio.start_server(self._serve, "127.0.0.1", self.port))

    @property
    def port(self) -> int:
        return self._reservation.getsockname()[1]

    def publish_switch(self, former_port: int) -> None:
        host, port = self.primary
        payload = f"{self.service} 127.0.0.1 {former_port} {host} {port}"
        self._thread.call(self._publish, payload.encode())

    def drop_subscribers(self) -> None:
        """End the connections of all subscribers, who then begin with another sentinel."""
        self._thread.call(lambda: [writer.transport.abort() for writer, _ in self.subscribers])

    def close(self) -> None:
        self._thread.run(self._end())
        self._thread.close()
        self._reservation.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _end(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def _publish(self, payload: bytes) -> None:
        for writer, kind in self.subscribers:
            writer.write(_aggregate(kind, b"message", b"+switch-master", payload))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        commands, kind = hiredis.Reader(), b"*"
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                commands.feed(data)
                while (command := commands.gets()) is not False:
                    kind = b">" if command[0].upper() == b"HELLO" else kind
                    writer.write(self._reply(command, writer, kind))
        self.subscribers = [each for each in self.subscribers if each[0] is not writer]
        self._writers.discard(writer)
        writer.close()

    def _reply(self, command: list[bytes], writer: asyncio.StreamWriter, kind: bytes) -> bytes:
        knows = command[-1] == self.service.encode()
        match command:
            case [b"PING", *marker]:
                return _bulk(*marker) if marker else b"+PONG\r\n"
            case [b"AUTH", *_]:
                return b"+OK\r\n"
            case [b"HELLO", *_]:
                return b"%1\r\n" + _bulk(b"mode") + _bulk(b"sentinel")
            case [b"SUBSCRIBE", _] if self.refuses_subscriptions:
                return b"-NOPERM this user has no permissions to access one of the channels\r\n"
            case [b"SUBSCRIBE", _]:
                self.subscribers.append((writer, kind))
                return kind + b"3\r\n" + _bulk(b"subscribe") + _bulk(b"+switch-master") + b":1\r\n"
            case [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", _]:
                self.searches += 1
                host, port = self.primary
                return _aggregate(b"*", host.encode(), b"%d" % port) if knows else b"*-1\r\n"
            case [b"SENTINEL", b"MASTER", _] if knows:
                host, port = self.primary
                told = {
                    "name": self.service,
                    "ip": host,
                    "port": port,
                    "config-epoch": self.epoch,
                    "quorum": 2,
                }
                told |= {"num-other-sentinels": 0, "down-after-milliseconds": 1000, "failover-timeout": 5000}
                return _aggregate(b"*", *(str(word).encode() for pair in told.items() for word in pair))
            case [b"SENTINEL", b"MASTERS"]:
                return b"*1\r\n" + _aggregate(b"*", b"name", self.service.encode())
            case [b"SENTINEL", b"SENTINELS", _]:
                told = [_aggregate(b"*", b"ip", b"127.0.0.1", b"port", b"%d" % port) for port in self.others]
                return b"*%d\r\n" % len(told) + b"".join(told)
            case _:
                return b"-ERR No such master with that name\r\n"


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _aggregate(kind: bytes, *words: Any) -> bytes:
    return b"%b%d\r\n" % (kind, len(words)) + b"".join(map(_bulk, words))
