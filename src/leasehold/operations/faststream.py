"""FastStream: handlers process a message under a lock, or return it to the broker."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from leasehold.core import validation
from leasehold.core.backoff import Backoff
from leasehold.core.once import check_keep, encode_result, key_of
from leasehold.errors import InvalidRequest, LeaseholdError, StoreError
from leasehold.extras import requires_extra
from leasehold.operations.lock_names import name_part

with requires_extra(__name__, "operations"):
    from faststream import AckPolicy, BaseMiddleware
    from faststream.exceptions import AckMessage, NackMessage, StopConsume
    from faststream.message import AckStatus, SourceType, StreamMessage

if TYPE_CHECKING:
    from faststream import ContextRepo

    from leasehold.client import Lease
    from leasehold.operations.operations import Operations

_log = logging.getLogger("leasehold.operations")

Message = StreamMessage[Any]
Key = Callable[[Any], object]
CallNext = Callable[[Any], Awaitable[Any]]

# The maximum of locks whose returned messages are counted; forgetting one only makes a pause shorter.
_MAX_COUNTED = 10_000


class LockMiddleware:
    """Runs handlers under the lock of ``purpose``, and never without it. For a broker, or a router.

    ``key`` selects the lock of a message: a function of the decoded body for a purpose with one parameter, a mapping
    with a function for each of several; without it, the fields of the body that have the parameters' names.
    Handlers get the lease as ``lease: Annotated[Lease, Context()]``.

    If the lock is busy for longer than the purpose waits, if the store does not answer, or if the lease is lost
    while the handler runs (which cancels it), the message is nacked, so that the broker delivers it again. The same
    happens if the handler raises `LockBusy`, `StoreError` or another error of Leasehold except `InvalidRequest`.
    Before the nack there is a pause, from ``pause`` seconds up to ``max_pause`` for a lock that stays busy; with NATS
    the server delays the message, and with Redis Streams the idle time of the claiming subscriber is the pause. With
    ``retry_to`` the message is passed to that function instead, which publishes it to a retry topic, and acknowledged
    when it returns. A message without a valid key is an error like any of the handler's: nothing is run, and the
    subscriber's ``ack_policy`` applies.

    With ``once``, a function of the body that returns an id of the work, a handler that has finished is not run again
    for a duplicate within ``once_ttl`` seconds: its result, if that is JSON, is returned (and published) again, since
    the first run may have died before publishing it; if not, the duplicate is only acknowledged. The work of each
    handler is separate, identified by the purpose and the function's module and name. If a handler is renamed, or
    several handlers do the same work, name the work with ``operation``; the key is then that of
    ``locks.once("operation:…")``, so the handler itself must use another one. A message that the handler nacks or
    rejects itself does not count as done.

    Brokers that do not redeliver (``AckPolicy.ACK_FIRST``, which is Kafka's default in FastStream; Redis lists and
    channels; NATS without JetStream) are not supported: no message is processed, and the subscriber is stopped at its
    first one. `check_redelivery` checks that beforehand.
    """

    def __init__(
        self,
        ops: Operations,
        *,
        purpose: str,
        key: Key | Mapping[str, Key] | None = None,
        once: Key | None = None,
        operation: str | None = None,
        once_ttl: float = 86400,
        pause: float = 1,
        max_pause: float = 30,
        retry_to: Callable[[Message], Awaitable[object]] | None = None,
    ) -> None:
        self._ops = ops
        self._purpose = ops.purposes.find(purpose)
        self._keys = _check_keys(self._purpose.name, self._purpose.parameters, key)
        self._purpose.check_parameters(self._keys)
        if once is not None and not _is_plain(once):
            raise InvalidRequest(f"once must be a plain function of the body, not {once!r}")
        if operation is not None:
            if once is None:
                raise InvalidRequest("operation needs once as well: it names the work that is done once")
            key_of(operation, "any")
        check_keep(once_ttl)
        validation.check_duration(pause, "pause")
        if validation.check_duration(max_pause, "max_pause") < pause:
            raise InvalidRequest(f"max_pause ({max_pause:g} s) must not be shorter than pause ({pause:g} s)")
        self._once = once
        self._operation = operation
        self._once_ttl = once_ttl
        self._backoff = Backoff(first=pause, cap=max_pause)
        self._retry_to = retry_to
        self._returned: dict[str, int] = {}

    def __call__(self, msg: Any, /, *, context: ContextRepo) -> _LockedMessage:
        """Called by FastStream for every message."""
        return _LockedMessage(self, msg, context)

    async def consume(self, call_next: CallNext, message: Message, context: ContextRepo) -> Any:
        """Process ``message`` under its lock, or return it to the broker."""
        subscriber = context.get_local("handler_")
        _check_message(subscriber, message)
        body = await message.decode()
        lock_name = self._purpose.lock_name(**{name: key(body) for name, key in self._keys.items()})
        attempt = _Attempt(call_next, message)
        try:
            if self._once is None:
                await self._run(attempt, lock_name, context)
            else:
                unique = name_part("once", self._once(body))
                key = key_of(self._operation or await self._default_operation(subscriber, message), unique)
                await self._run_once(key, attempt, lock_name, context)
        except InvalidRequest:
            raise
        except LeaseholdError as error:
            if not (attempt.is_done and isinstance(error, StoreError)):
                await self._return_to_broker(message, lock_name, error)
            _log.warning(
                "%s: the message %s is processed, but not recorded as done", error, message.message_id
            )
        self._returned.pop(lock_name, None)
        if attempt.is_duplicate and getattr(subscriber, "ack_policy", None) is AckPolicy.MANUAL:
            await message.ack()  # the handler, which would do it, was not run
        return attempt.outcome()

    async def _run(self, attempt: _Attempt, lock_name: str, context: ContextRepo) -> None:
        try:
            async with self._ops.hold(self._purpose, lock_name) as lease:
                with context.scope("lease", lease):
                    await attempt.run(lease)
                attempt.is_done = True
        except StoreError as error:
            if not attempt.is_done:
                raise
            # The work was done under the lock. Doing it again because the lock could not be released would
            # be worse than a lock that stays until its ttl ends.
            _log.warning("the lock %r could not be released and ends with its ttl: %s", lock_name, error)

    async def _run_once(self, key: str, attempt: _Attempt, lock_name: str, context: ContextRepo) -> None:
        async def run() -> dict[str, Any]:
            # The lock inside, not around: storing the result may take longer than the lock's lease, whose loss
            # would cancel finished work.
            await self._run(attempt, lock_name, context)
            if not attempt.is_storable:
                raise _NothingToStoreError
            stored = {"result": attempt.result}
            try:
                encode_result(key, stored)
            except InvalidRequest:
                return {}
            return stored

        try:
            stored = await self._ops.locks.once(
                key, run, ttl=self._once_ttl, lease_ttl=self._purpose.ttl, wait=self._purpose.wait
            )
        except _NothingToStoreError:
            return
        if not attempt.has_run:
            attempt.is_duplicate = True
            if "result" in stored:
                attempt.result = stored["result"]
            else:
                attempt.failure = AckMessage()

    async def _default_operation(self, subscriber: Any, message: Message) -> str:
        """The name of the handler's work, the same after a restart and for every subscriber of the function."""
        calls = getattr(subscriber, "calls", ())
        for call in calls:
            if len(calls) == 1 or await call.filter(message):
                function = inspect.unwrap(call.handler._original_call)  # noqa: SLF001 - has no public name
                name = getattr(function, "__qualname__", type(function).__qualname__)
                return f"{self._purpose.name}/{function.__module__}.{name}"
        return self._purpose.name

    async def _return_to_broker(self, message: Message, lock_name: str, error: LeaseholdError) -> None:
        """Nack ``message`` after a pause, and end its processing."""
        if self._retry_to is not None and await self._send_to_retry(message, error):
            await message.ack()
            raise AckMessage from error
        times = self._returned.get(lock_name, 0) + 1
        if len(self._returned) >= _MAX_COUNTED:
            self._returned.clear()
        self._returned[lock_name] = times
        pause = self._backoff.pause(times, random.random())  # noqa: S311 - spreads, hides nothing
        _log.warning("%s: the message %s is nacked", error, message.message_id)
        options: dict[str, float] = {}
        if "delay" in inspect.signature(message.nack).parameters:
            options["delay"] = pause
        elif not _is_of("redis", message):
            await asyncio.sleep(pause)
        # Here as well as by the exception, which AckPolicy.MANUAL ignores. A second nack has no effect.
        await cast("Any", message).nack(**options)
        raise NackMessage(**options) from error

    async def _send_to_retry(self, message: Message, error: LeaseholdError) -> bool:
        assert self._retry_to is not None
        try:
            await self._retry_to(message)
        except Exception:  # noqa: BLE001 - no error of the function may lose the message
            _log.exception("the message %s could not be passed to retry_to", message.message_id)
            return False
        _log.warning("%s: the message %s is passed to retry_to", error, message.message_id)
        return True


class _LockedMessage(BaseMiddleware):
    """The middleware for one message."""

    def __init__(self, rule: LockMiddleware, msg: Any, context: ContextRepo) -> None:
        super().__init__(msg, context=context)
        self._middleware = rule

    async def consume_scope(self, call_next: CallNext, msg: Message) -> Any:
        """Called by FastStream around the handler."""
        if msg.source_type is SourceType.RESPONSE:  # a response to our own request has no handler
            return await call_next(msg)
        return await self._middleware.consume(call_next, msg, self.context)


class _NothingToStoreError(Exception):
    """Ends a run whose result is not stored; the attempt has the outcome."""


class _Attempt:
    """One run of a handler and its outcome.

    The handler's exception is raised after the lock is released: only then is it known whether the lease was held
    to the end, and a handler without a lease must not decide whether its message is acknowledged.
    """

    def __init__(self, call_next: CallNext, message: Message) -> None:
        self._call_next = call_next
        self._message = message
        self.has_run = False
        self.is_done = False
        self.is_duplicate = False
        self.result: Any = None
        self.failure: Exception | None = None

    @property
    def is_storable(self) -> bool:
        """Whether the handler has finished: it has not failed, nacked or rejected the message."""
        if self._message.committed in {AckStatus.NACKED, AckStatus.REJECTED}:
            return False
        return self.failure is None or isinstance(self.failure, AckMessage)

    async def run(self, lease: Lease) -> None:
        self.has_run = True
        try:
            self.result = await self._call_next(self._message)
        except LeaseholdError:
            raise
        except Exception as error:  # noqa: BLE001 - raised by `outcome`
            self.failure = error
        lease.check()

    def outcome(self) -> Any:
        if self.failure is not None:
            raise self.failure
        return self.result


def check_redelivery(subscribers: Iterable[Any]) -> None:
    """Raise `InvalidRequest` if the broker of one of ``subscribers`` does not redeliver messages.

    ``check_redelivery(broker.subscribers)``, before the broker is started.
    """
    if faults := [
        f"{subscriber.specification.call_name}: {fault}"
        for subscriber in subscribers
        if (fault := _subscriber_fault(subscriber))
    ]:
        raise InvalidRequest("messages whose lock is busy would be lost: " + "; ".join(faults))


def _subscriber_fault(subscriber: Any) -> str | None:
    if getattr(subscriber, "ack_policy", None) is AckPolicy.ACK_FIRST:
        return (
            "it acknowledges before processing (ack_policy=AckPolicy.ACK_FIRST); use AckPolicy.NACK_ON_ERROR"
        )
    stream = getattr(subscriber, "stream_sub", None)
    if _is_of("redis", subscriber) and (stream is None or not stream.group or stream.no_ack):
        return "with Redis, only streams with a consumer group and acknowledgement redeliver"
    if _is_of("nats", subscriber) and "Stream" not in type(subscriber).__name__:
        return "with NATS, only JetStream redelivers"
    return None


def _check_message(subscriber: Any, message: Message) -> None:
    fault = _subscriber_fault(subscriber) if subscriber is not None else None
    if fault is None and message.committed is not None:
        fault = "the message is already acknowledged"
    if fault is not None:
        wrong = InvalidRequest(
            f"LockMiddleware stops the subscriber, because it would lose messages: {fault}"
        )
        _log.error("%s", wrong)
        raise StopConsume from wrong


def _check_keys(
    purpose: str, parameters: tuple[str, ...], key: Key | Mapping[str, Key] | None
) -> dict[str, Key]:
    if key is None:
        return {name: _field(name) for name in parameters}
    if not isinstance(key, Mapping) and len(parameters) != 1:
        takes = f"takes {', '.join(parameters)}" if parameters else "takes no parameters"
        raise InvalidRequest(
            f"purpose {purpose!r} {takes}: for that, key must be a mapping of functions or left out"
        )
    keys = dict(cast("Mapping[str, Key]", key)) if isinstance(key, Mapping) else {parameters[0]: key}
    for name, function in keys.items():
        if not _is_plain(function):
            raise InvalidRequest(
                f"purpose {purpose!r}: the key {name} must be a plain function of the body, not {function!r}"
            )
    return keys


def _is_plain(function: object) -> bool:
    return callable(function) and not inspect.iscoroutinefunction(function)


def _field(name: str) -> Key:
    def read(body: Any) -> object:
        if not isinstance(body, Mapping) or name not in body:
            raise InvalidRequest(
                f"the message must be a JSON object with a field {name!r}, which names the lock"
            )
        return cast("Mapping[str, object]", body)[name]

    return read


def _is_of(broker: str, thing: object) -> bool:
    return type(thing).__module__.startswith(f"faststream.{broker}.")
