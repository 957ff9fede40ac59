"""The unsent messages of one socket."""

from __future__ import annotations

import asyncio
import types
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from leasehold.documents.live.limits import SocketLimits

    Send = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]


class Outbox:
    """Sends at once while the socket reads. For a slow socket, replies are kept in order, and of each topic only the
    newest message.

    Both are limited: ``on_too_slow`` is called once for a socket that exceeds the limits, and nothing is sent
    after that. A task exists only while a socket is slow.
    """

    __slots__ = ("_bytes", "_is_closed", "_limits", "_newest", "_on_too_slow", "_replies", "_send", "_writer")

    def __init__(self, send: Send, limits: SocketLimits, on_too_slow: Callable[[], None]) -> None:
        self._send = send
        self._limits = limits
        self._on_too_slow = on_too_slow
        self._newest: dict[str, str] = {}
        self._replies: deque[str] | None = None
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_blocked(self) -> bool:
        """The socket has not taken the last message yet."""
        return self._writer is not None

    def reply(self, text: str) -> None:
        """Send ``text``, after every earlier reply."""
        if self._writer is None:
            self._begin(text)
            return
        if self._replies is None:
            self._replies = deque()
        self._replies.append(text)
        self._bytes += len(text)
        if len(self._replies) > self._limits.unread_replies or self._bytes > self._limits.unread_bytes:
            self._give_up()

    def publish(self, topic: str, text: str) -> None:
        """Send ``text``, the newest message on ``topic``. It replaces an unsent one."""
        if self._writer is None:
            self._begin(text)
        else:
            self._newest.pop(topic, None)  # so that it goes to the end
            self._newest[topic] = text

    def forget(self, topic: str) -> None:
        """Drop the unsent message on ``topic``."""
        self._newest.pop(topic, None)

    def close(self) -> None:
        """Send nothing more."""
        self._is_closed = True
        self._newest.clear()
        self._replies = None
        if self._writer is not None:
            self._writer.cancel()

    def _begin(self, text: str) -> None:
        if self._is_closed:
            return
        try:
            remains = step(self._send({"type": "websocket.send", "text": text}))
        except Exception:  # noqa: BLE001 - whatever the server raises when the peer is gone; the reader gets it as well
            self.close()
        else:
            if remains is not None:
                self._writer = asyncio.get_running_loop().create_task(self._drain(remains))

    async def _drain(self, remains: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._limits.drain_within):
                await remains
                while (text := self._next()) is not None:
                    await self._send({"type": "websocket.send", "text": text})
        except TimeoutError:
            self._give_up()
        except Exception:  # noqa: BLE001 - as in _begin
            self.close()
        finally:
            self._writer = None

    def _next(self) -> str | None:
        if self._replies:
            text = self._replies.popleft()
            self._bytes -= len(text)
            return text
        self._replies = None
        return self._newest.pop(next(iter(self._newest))) if self._newest else None

    def _give_up(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._newest.clear()
            self._replies = None
            self._on_too_slow()


def step(coroutine: Coroutine[Any, Any, None]) -> Awaitable[None] | None:
    """Run ``coroutine`` until it first waits; returns the rest of it, or None if it never waited.

    A socket that keeps up takes a message without waiting, so its ``send`` needs no task; a broadcast sends to very
    many. The rest must be awaited by a task, at once. An exception in the first step is raised here.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return _rest(coroutine, awaited)


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """As if the task that awaits this had run ``coroutine`` from its beginning."""
    try:
        while True:
            try:
                answer = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the coroutine
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(answer)
    except StopIteration:
        return
