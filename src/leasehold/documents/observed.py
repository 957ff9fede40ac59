"""Reports the verbs of document locks to the client's observer."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from leasehold.core.observer import LeaseEnded, Operation, observed
from leasehold.documents.outcomes import Busy
from leasehold.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.observer import Observers, Outcome, Verb
    from leasehold.documents.state import LockState

M = TypeVar("M", bound="Callable[..., Coroutine[Any, Any, Any]]")


class _Observed(Protocol):
    @property
    def lookout(self) -> Observers: ...


def observe_as(verb: Verb) -> Callable[[M], M]:
    """Report each call of the decorated method as ``verb`` on the document that is its first argument."""

    def decorate(method: M) -> M:
        @functools.wraps(method)
        def run(self: _Observed, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
            if self.lookout.observer is None:
                return method(self, *args, **kwargs)
            subject: Any = args[0] if args else kwargs.get("document_id", kwargs.get("save"))
            operation = Operation("document", verb, getattr(subject, "document_id", subject))
            return observed(
                self.lookout, clock.now, operation, lambda: method(self, *args, **kwargs), judge=_judge
            )

        return cast("M", run)

    return decorate


def report_release(lookout: Observers, state: LockState) -> None:
    """Report that a hold was released, after which ``state`` was read."""
    last = state.last
    if lookout.observer is None or last is None or last.ended_at is None:
        return
    held = max(0.0, last.ended_at - last.acquired_at)
    lookout.observer.hear(LeaseEnded("document", state.document_id, last.fence, "released", held))


def _judge(result: object) -> Outcome:
    if isinstance(result, Busy):
        return "busy"
    if isinstance(result, tuple) and result[0] is False:
        return "lost"  # a heartbeat for a hold that has ended
    return "success"
