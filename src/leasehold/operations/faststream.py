"""FastStream: a message is worked on under a lock, or given back to the broker."""

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
from leasehold.operations.lock_names import write

with requires_extra(__name__, "operations"):
    from faststream import AckPolicy, BaseMiddleware
    from faststream.exceptions import AckMessage, NackMessage, StopConsume
    from faststream.message import AckStatus, SourceType, StreamMessage

if TYPE_CHECKING:
    from faststream import ContextRepo

    from leasehold.client import Lease
    from leasehold.operations.operations import Operations

_log = logging.getLogger(__name__)

Message = StreamMessage[Any]
Key = Callable[[Any], object]
CallNext = Callable[[Any], Awaitable[Any]]

# How many locks to remember for which messages were given back; forgetting one only makes a pause shorter.
_MAX_REMEMBERED = 10_000


class LockMiddleware:
    """Handlers run under the lock of ``purpose``, and never without it. For a broker, or a router.

    ``key`` says which lock a message is about: a function of the decoded body for a purpose with one parameter, a
    function for each in a mapping for several; without it, the fields of the body that have the parameters' names.
    Handlers get the lease as ``lease: Annotated[Lease, Context()]``.

    If the lock is busy for longer than the purpose waits, if the store does not answer, or if the lease is lost
    while the handler works (which is cancelled then), the message is nacked, so that the broker delivers it
    again. The same if the handler raises `LockBusy`, `StoreError` or another error of Leasehold's but
    `InvalidRequest`. Before that there is a pause, from ``pause`` seconds up to ``max_pause`` for a lock that stays
    busy; with NATS the server makes it, and with Redis Streams the idle time of the claiming subscriber is the
    pause. With ``retry_to`` the message is handed to that function instead, to be published to a retry topic, and
    acknowledged when it returns. A message without a usable key is an error like any of the handler's: nothing is
    run, and the subscriber's ``ack_policy`` decides.

    With ``once``, a function of the body that returns what identifies the work, a handler that has finished is
    not run again for a duplicate within ``once_ttl`` seconds: what it returned, if that is JSON, is returned (and
    published) again, since the first may have died before it was; if not, the duplicate is only acknowledged. Each
    handler has done its own work and no other's: it is known by the purpose and by its function's module and name. Whoever
    renames it, or has several of them do one thing, names that thing with ``operation``; the key is then
    that of ``locks.once("operation:…")``, so the handler itself must use another one. A message that the handler
    nacks or rejects itself has not been done.

    A broker that does not deliver again (``AckPolicy.ACK_FIRST``, which is Kafka's default in FastStream; Redis
    lists and channels; NATS without JetStream) is no place for this: nothing is processed and the subscriber is
    stopped at its first message. `check_redelivery` finds that out before.
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
                raise InvalidRequest("operation names what is done once, so it needs once as well")
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
        self._given_back: dict[str, int] = {}

    def __call__(self, msg: Any, /, *, context: ContextRepo) -> _Locked:
        """What FastStream calls for every message."""
        return _Locked(self, msg, context)

    async def consume(self, call_next: CallNext, message: Message, context: ContextRepo) -> Any:
        """Work on ``message`` under its lock, or give it back."""
        subscriber = context.get_local("handler_")
        _check_message(subscriber, message)
        body = await message.decode()
        lock_name = self._purpose.lock_name(**{name: key(body) for name, key in self._keys.items()})
        attempt = _Attempt(call_next, message)
        try:
            if self._once is None:
                await self._run(attempt, lock_name, context)
            else:
                unique = write("once", self._once(body))
                key = key_of(self._operation or await self._default_operation(subscriber, message), unique)
                await self._run_once(key, attempt, lock_name, context)
        except InvalidRequest:
            raise
        except LeaseholdError as error:
            if not (attempt.is_done and isinstance(error, StoreError)):
                await self._give_back(message, lock_name, error)
            _log.warning("%s: the message %s is done, but not remembered", error, message.message_id)
        self._given_back.pop(lock_name, None)
        if attempt.is_duplicate and getattr(subscriber, "ack_policy", None) is AckPolicy.MANUAL:
            await message.ack()  # the handler would have, if it had been run
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
            # The work was done under the lock. Doing it again because the lock could not be given back would
            # be worse than the lock's staying until its ttl ends.
            _log.warning("the lock %r could not be released and ends with its ttl: %s", lock_name, error)

    async def _run_once(self, key: str, attempt: _Attempt, lock_name: str, context: ContextRepo) -> None:
        async def run() -> dict[str, Any]:
            # The lock inside, not around: keeping the result may take longer than the lock's lease lasts,
            # whose loss would have finished work called off.
            await self._run(attempt, lock_name, context)
            if not attempt.is_to_be_kept:
                raise _NothingToKeepError
            kept = {"result": attempt.result}
            try:
                encode_result(key, kept)
            except InvalidRequest:
                return {}
            return kept

        try:
            kept = await self._ops.locks.once(
                key, run, ttl=self._once_ttl, lease_ttl=self._purpose.ttl, wait=self._purpose.wait
            )
        except _NothingToKeepError:
            return
        if not attempt.has_run:
            attempt.is_duplicate = True
            if "result" in kept:
                attempt.result = kept["result"]
            else:
                attempt.failure = AckMessage()

    async def _default_operation(self, subscriber: Any, message: Message) -> str:
        """What the handler of ``message`` does, the same after a restart and for every subscriber of the function."""
        calls = getattr(subscriber, "calls", ())
        for call in calls:
            if len(calls) == 1 or await call.filter(message):
                function = inspect.unwrap(call.handler._original_call)  # noqa: SLF001 - has no public name
                name = getattr(function, "__qualname__", type(function).__qualname__)
                return f"{self._purpose.name}/{function.__module__}.{name}"
        return self._purpose.name

    async def _give_back(self, message: Message, lock_name: str, error: LeaseholdError) -> None:
        """Hand ``message`` back to the broker, after a pause, and end its processing."""
        if self._retry_to is not None and await self._is_taken_over(message, error):
            await message.ack()
            raise AckMessage from error
        times = self._given_back.get(lock_name, 0) + 1
        if len(self._given_back) >= _MAX_REMEMBERED:
            self._given_back.clear()
        self._given_back[lock_name] = times
        pause = self._backoff.pause(times, random.random())  # noqa: S311 - spreads, hides nothing
        _log.warning("%s: the message %s is nacked", error, message.message_id)
        options: dict[str, float] = {}
        if "delay" in inspect.signature(message.nack).parameters:
            options["delay"] = pause
        elif not _is_of("redis", message):
            await asyncio.sleep(pause)
        # Here as well as by the exception, which nobody heeds with AckPolicy.MANUAL. The second does nothing.
        await cast("Any", message).nack(**options)
        raise NackMessage(**options) from error

    async def _is_taken_over(self, message: Message, error: LeaseholdError) -> bool:
        assert self._retry_to is not None
        try:
            await self._retry_to(message)
        except Exception:  # noqa: BLE001 - whatever it is, the message must not be lost by it
            _log.exception("the message %s could not be sent to be retried later", message.message_id)
            return False
        _log.warning("%s: the message %s is sent to be retried later", error, message.message_id)
        return True


class _Locked(BaseMiddleware):
    """The middleware for one message."""

    def __init__(self, rule: LockMiddleware, msg: Any, context: ContextRepo) -> None:
        super().__init__(msg, context=context)
        self._rule = rule

    async def consume_scope(self, call_next: CallNext, msg: Message) -> Any:
        """Called by FastStream around the handler."""
        if msg.source_type is SourceType.RESPONSE:  # to a request of ours: nobody works on that
            return await call_next(msg)
        return await self._rule.consume(call_next, msg, self.context)


class _NothingToKeepError(Exception):
    """Ends a run of which nothing is to be remembered; what came of it, the attempt knows."""


class _Attempt:
    """One run of a handler, and what came of it.

    Its exceptions wait until the lock was given back: only then is it known whether the lease was held to the
    end, and a handler without a lease has no say in whether its message is acknowledged.
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
    def is_to_be_kept(self) -> bool:
        """Whether the handler is content: it has not failed, nor asked for the message once more or put it aside."""
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
    """Raise `InvalidRequest` if one of ``subscribers`` has a broker that does not deliver messages again.

    ``check_redelivery(broker.subscribers)``, before the broker is started.
    """
    if faults := [
        f"{subscriber.specification.call_name}: {fault}"
        for subscriber in subscribers
        if (fault := _subscriber_fault(subscriber))
    ]:
        raise InvalidRequest("messages that cannot be locked would be lost: " + "; ".join(faults))


def _subscriber_fault(subscriber: Any) -> str | None:
    if getattr(subscriber, "ack_policy", None) is AckPolicy.ACK_FIRST:
        return "it acknowledges before it works (ack_policy=AckPolicy.ACK_FIRST); use AckPolicy.NACK_ON_ERROR"
    stream = getattr(subscriber, "stream_sub", None)
    if _is_of("redis", subscriber) and (stream is None or not stream.group or stream.no_ack):
        return "of Redis, only streams with a consumer group and acknowledgement deliver again"
    if _is_of("nats", subscriber) and "Stream" not in type(subscriber).__name__:
        return "of NATS, only JetStream delivers again"
    return None


def _check_message(subscriber: Any, message: Message) -> None:
    fault = _subscriber_fault(subscriber) if subscriber is not None else None
    if fault is None and message.committed is not None:
        fault = "the message is acknowledged already"
    if fault is not None:
        wrong = InvalidRequest(f"LockMiddleware cannot work here and stops the subscriber: {fault}")
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
                f"the message must be a JSON object with a field {name!r}, to know what to lock"
            )
        return cast("Mapping[str, object]", body)[name]

    return read


def _is_of(broker: str, thing: object) -> bool:
    return type(thing).__module__.startswith(f"faststream.{broker}.")
