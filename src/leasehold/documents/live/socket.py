"""One socket, from its first message to its close."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from leasehold.documents import audit
from leasehold.documents.http.problems import problem_of
from leasehold.documents.live.limits import MessageRateLimiter
from leasehold.documents.live.messages import (
    FROM_CLIENT,
    Authenticate,
    Authenticated,
    CloseCode,
    Closed,
    Error,
    Fault,
    RoomClosed,
    Welcome,
)
from leasehold.documents.live.outbox import Outbox
from leasehold.documents.ports import Principal
from leasehold.documents.state import Editor
from leasehold.documents.store.tickets import Admission
from leasehold.errors import InvalidRequest, LeaseholdError, NotSignedIn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from leasehold.documents.live.hub import Hub
    from leasehold.documents.live.messages import Credentials, Message

    Receive = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]
    VerifyCredentials = Callable[[Credentials], Awaitable[Admission]]
    Answer = Callable[["Socket", str], Awaitable[None]]

_log = logging.getLogger("leasehold.documents")

# Timers cannot be set further ahead than some weeks, and need not.
_LONGEST_TIMER = 86400.0
_CLOSE_WITHIN = 2.0
_ANONYMOUS = Admission(Principal("", ""), 0)


class Socket:
    """``connecting`` until it is authenticated, ``authenticated``, and ``closing`` once its end is decided.

    ``cut`` aborts a connection whose peer does not read, where the server supports that. ``address`` is the client's,
    as it is counted.
    """

    __slots__ = (
        "_closing",
        "_cut",
        "_expiry",
        "_hub",
        "_is_given_up",
        "_mistakes_left",
        "_rate_limiter",
        "_receive",
        "_send",
        "_task",
        "address",
        "admission",
        "editor",
        "outbox",
        "phase",
        "rooms",
    )

    def __init__(
        self,
        hub: Hub,
        *,
        receive: Receive,
        send: Send,
        cut: Callable[[int], None] | None = None,
        address: str = "",
    ) -> None:
        self.address = address
        self.phase: Literal["connecting", "authenticated", "closing"] = "connecting"
        self.admission = _ANONYMOUS
        self.editor = Editor("", "")
        self.rooms: dict[str, None] = {}
        """The watched documents; the one whose permission was checked longest ago is first."""
        self.outbox = Outbox(send, hub.limits, self._on_too_slow)
        self._hub = hub
        self._receive = receive
        self._send = send
        self._cut = cut
        self._rate_limiter = MessageRateLimiter(hub.limits)
        self._mistakes_left = hub.limits.mistakes
        self._expiry: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_given_up = False

    async def run(self, verify: VerifyCredentials, answer: Answer) -> None:
        """Serve the client until either side closes."""
        self._task = asyncio.current_task()
        self._hub.presence.connecting.add(self)
        try:
            if await self._authenticate(verify):
                while (text := await self._next_message()) is not None:
                    await answer(self, text)
        except asyncio.CancelledError:
            if not self._is_given_up:
                raise
        except Exception:  # noqa: BLE001 - the host application's own, perhaps; it ends only this socket
            _log.exception("a socket failed")
            self.close(CloseCode.FAILED)
        finally:
            self._task = None
            self._detach()
            if self._closing is not None:
                await asyncio.wait({self._closing})

    def reply(self, message: Message) -> None:
        """Send a reply."""
        self.outbox.reply(message.model_dump_json())

    def reply_error(self, error: LeaseholdError, document_id: str | None = None) -> None:
        """Send the error as a reply."""
        problem = problem_of(error)
        self.reply(
            Error(data=Fault(code=problem.code, message=problem.message[:500], document_id=document_id))
        )

    def reply_mistake(self, error: InvalidRequest) -> None:
        """Send the error as a reply to an invalid message; after too many of them close the socket."""
        self.reply_error(error)
        self._mistakes_left -= 1
        if self._mistakes_left <= 0:
            self.close(CloseCode.BROKEN_PROTOCOL)

    def close_room(self, document_id: str, code: str) -> None:
        """Leave the room because the client may no longer watch the document."""
        self.leave(document_id)
        self.reply(RoomClosed(data=Closed(document_id=document_id, code=code)))

    def leave(self, document_id: str) -> None:
        """Leave the room and drop its unsent messages."""
        self.rooms.pop(document_id, None)
        self._hub.leave(self, document_id)
        self.outbox.forget(document_id)

    def close(self, code: CloseCode) -> None:
        """Close the connection. Nothing is sent from now on, except the close code."""
        if self.phase == "closing":
            return
        is_blocked = self.outbox.is_blocked
        self._detach()
        self._closing = asyncio.get_running_loop().create_task(self._end(code, is_blocked=is_blocked))

    async def _next_message(self) -> str | None:
        """The next message; None once the socket is closed."""
        message = await self._receive()
        if message["type"] != "websocket.receive" or self.phase == "closing":
            return None
        limit = self._hub.limits.message_bytes
        text = message.get("text") or ""  # bytes are not a valid message
        if time.time() >= self.admission.principal.expires_at:
            self.close(CloseCode.NOT_SIGNED_IN)
        elif not self._rate_limiter.spend():
            self.close(CloseCode.TOO_MANY_MESSAGES)
        elif len(text) > limit or len(text.encode()) > limit or len(message.get("bytes") or b"") > limit:
            self.close(CloseCode.MESSAGE_TOO_LARGE)
        else:
            return text
        return None

    async def _authenticate(self, verify: VerifyCredentials) -> bool:
        try:
            async with asyncio.timeout(self._hub.limits.authenticate_within):
                text = await self._next_message()
                if text is None:
                    return False
                credentials = _credentials(text)
                self._log_in(await verify(credentials), credentials.tab)
                if not self._hub.presence.register(self):
                    self.close(CloseCode.TOO_MANY_SOCKETS)
                    return False
                # Registered first: from here on the end of the login is a notice, or is in the reply read now.
                if await self._hub.presence.has_ended(self):
                    raise NotSignedIn("this login has ended; log in again")
        except TimeoutError:
            self.close(CloseCode.NO_AUTHENTICATION)
        except LeaseholdError as error:
            self._refuse(error)
        if self.phase == "closing":
            return False
        self.phase = "authenticated"
        self._check_expiry()
        self.reply(Authenticated(data=self._welcome()))
        return True

    def _log_in(self, admission: Admission, tab: str | None) -> None:
        self.admission = admission
        self.editor = Editor.at_tab(admission.principal.user_id, admission.principal.user_name, tab)

    def _refuse(self, error: LeaseholdError) -> None:
        self.reply_error(error)
        match error:
            case NotSignedIn():
                audit.note("socket_refused", why=str(error))
                self.close(CloseCode.NOT_SIGNED_IN)
            case InvalidRequest():
                self.close(CloseCode.BROKEN_PROTOCOL)
            case _:
                self.close(CloseCode.GOING_AWAY)  # another worker, or a later try, may succeed

    def _welcome(self) -> Welcome:
        times, until = self._hub.documents.times, self.admission.principal.expires_at
        return Welcome(
            user_id=self.editor.user_id,
            user_name=self.editor.user_name,
            expires_at=None if math.isinf(until) else until,
            ttl=times.ttl,
            heartbeat=times.heartbeat,
            idle=times.idle,
        )

    def _check_expiry(self) -> None:
        left = self.admission.principal.expires_at - time.time()
        if left <= 0:
            self.close(CloseCode.NOT_SIGNED_IN)
        elif not math.isinf(left):
            delay = min(left, _LONGEST_TIMER)
            self._expiry = asyncio.get_running_loop().call_later(delay, self._check_expiry)

    def _on_too_slow(self) -> None:
        self.close(CloseCode.TOO_SLOW)

    def _detach(self) -> None:
        """Leave every room and list."""
        self.phase = "closing"
        if self._expiry is not None:
            self._expiry.cancel()
        for document_id in tuple(self.rooms):
            self.leave(document_id)
        self._hub.presence.unregister(self)
        self.outbox.close()

    async def _end(self, code: CloseCode, *, is_blocked: bool) -> None:
        if is_blocked and self._cut is not None:
            self._cut(int(code))
            return
        try:
            async with asyncio.timeout(_CLOSE_WITHIN):
                await self._send({"type": "websocket.close", "code": int(code)})
        except Exception:  # noqa: BLE001 - it hangs, or whatever the server raises when the peer is gone
            if self._cut is not None:
                self._cut(int(code))
            elif self._task is not None:
                self._is_given_up = True
                self._task.cancel()


def _credentials(text: str) -> Credentials:
    try:
        message = FROM_CLIENT.validate_json(text)
    except ValidationError:
        raise InvalidRequest("the first message must be authenticate") from None
    if not isinstance(message, Authenticate):
        raise NotSignedIn("the first message must be authenticate")
    return message.data
