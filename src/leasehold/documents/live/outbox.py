"""What one socket is still to be told."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from leasehold.documents.live.stepping import step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from leasehold.documents.live.limits import SocketLimits

    Send = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]


class Outbox:
    """Sends at once while the socket reads. For one that is slow, answers are kept in their order, and of each
    thing that changes only the newest state.

    Neither is kept without limit: ``fall_behind`` is called once for a socket that is too slow, and nothing is sent
    after that. A task exists only while a socket is slow.
    """

    __slots__ = ("_bytes", "_fall_behind", "_is_closed", "_limits", "_newest", "_replies", "_send", "_writer")

    def __init__(self, send: Send, limits: SocketLimits, fall_behind: Callable[[], None]) -> None:
        self._send = send
        self._limits = limits
        self._fall_behind = fall_behind
        self._newest: dict[str, str] = {}
        self._replies: deque[str] | None = None
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_blocked(self) -> bool:
        """Whether something is on its way that the socket does not take."""
        return self._writer is not None

    def reply(self, text: str) -> None:
        """Say ``text``, after everything that was replied before."""
        if self._writer is None:
            self._begin(text)
            return
        if self._replies is None:
            self._replies = deque()
        self._replies.append(text)
        self._bytes += len(text)
        if len(self._replies) > self._limits.unread_replies or self._bytes > self._limits.unread_bytes:
            self._give_up()

    def tell(self, what: str, text: str) -> None:
        """Say ``text``, the newest about ``what``. It takes the place of what was to be said about it before."""
        if self._writer is None:
            self._begin(text)
        else:
            self._newest.pop(what, None)  # so that it goes to the end
            self._newest[what] = text

    def forget(self, what: str) -> None:
        """Say no more about ``what``."""
        self._newest.pop(what, None)

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
        except Exception:  # noqa: BLE001 - whatever the server raises when the peer is gone; the reader is told as well
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
            self._fall_behind()
