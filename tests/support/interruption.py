"""Raises an exception at the N-th moment of a call at which CPython may run a signal handler.

Those are: the entry of a function of Python, the moment after a call of a function of C, a jump back, and blocking
functions of C themselves. There is none between two other instructions, nor after a function of Python has returned.
"""

from __future__ import annotations

import dis
import inspect
import opcode
import sys
import warnings
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

_CALLS = {opcode.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "CALL_KW") if name in opcode.opmap}
_JUMPS = {
    opcode.opmap[name]
    for name in ("JUMP_BACKWARD", "POP_JUMP_BACKWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_FALSE")
    if name in opcode.opmap
}
# Here calls block, and a signal handler may raise instead of their result.
_BLOCKING = {"_exchange", "_read", "_connect_one", "sleep"}


class Interrupted(BaseException):
    """What the signal handler raises."""


class Outcome(NamedTuple):
    """``where`` is None if the call was over before; ``result`` is what it returned, or the exception it raised."""

    where: str | None
    result: Any


class _Tracer:
    def __init__(self, at: int, error: type[BaseException]) -> None:
        self.left = at
        self.where: str | None = None
        self._error = error
        self._last: dict[FrameType, tuple[int, int]] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if self.where is not None:
            return None
        if event == "call":
            frame.f_trace_opcodes = True
            # A function of Python that is called directly: nothing is looked at when it returns.
            if frame.f_back is not None and frame.f_code.co_name != "__init__":
                self._last.pop(frame.f_back, None)
            # A generator that is closed is entered by an exception, at which no handler runs.
            if not (frame.f_code.co_flags & inspect.CO_GENERATOR and frame.f_lasti > 0):
                self._pass(frame, "entry")
        elif event == "opcode":
            offset = frame.f_lasti
            now = frame.f_code.co_code[offset]
            last = self._last.get(frame)
            self._last[frame] = (now, offset)
            if (
                last is not None
                and (last[0] in _CALLS | _JUMPS)
                and _handler(frame.f_code, last[1]) == _handler(frame.f_code, offset)
            ):
                self._pass(frame, "after a call" if last[0] in _CALLS else "jump")
            elif now in _CALLS and frame.f_code.co_name in _BLOCKING:
                self._pass(frame, "in a call")
        elif event == "return":
            self._last.pop(frame, None)
        return self

    def _pass(self, frame: FrameType, kind: str) -> None:
        self.left -= 1
        if not self.left:
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno} ({kind})"
            raise self._error(self.where)


def _handler(code: CodeType, offset: int) -> object:
    for entry in dis._parse_exception_table(code):  # type: ignore[attr-defined]  # there is no other way
        if entry.start <= offset < entry.end:
            return entry.target
    return None


def interrupt(call: Callable[[], Any], at: int, error: type[BaseException] = Interrupted) -> Outcome:
    """Run ``call`` and raise ``error`` in it at its ``at``-th moment."""
    tracer, before = _Tracer(at, error), sys.gettrace()
    result: Any = None
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # "coroutine was never awaited" is all that is left of a call that never began
        sys.settrace(tracer)
        try:
            result = call()
        except BaseException as caught:
            if tracer.where is None and not isinstance(caught, Exception):
                raise
            result = caught.with_traceback(None)
        finally:
            sys.settrace(before)
    return Outcome(tracer.where, result)


def each_moment(
    call: Callable[[], Any],
    prepare: Callable[[], Any],
    error: type[BaseException] = Interrupted,
    *,
    every: int = 1,
) -> Iterator[Outcome]:
    """Interrupt ``call`` at each of its moments (or at ``every`` so many of them) until one call is over before.

    ``prepare`` runs before each, and has to bring caches and connections into the same state.
    """
    for at in count(1, every):
        prepare()
        outcome = interrupt(call, at, error)
        if outcome.where is None:
            return
        yield outcome
