"""Functions that run under a lock: checks their declaration and finds the lock of each call."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from leasehold.operations.purposes import Purpose

_POSITIONAL = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
_VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
_LEASE = "lease"


class GuardedFunction:
    """A function, the purpose it runs under, and the sources of the purpose's parameters.

    All errors in the declaration raise `InvalidRequest` here, not at the first call.
    """

    def __init__(
        self, function: Callable[..., Any], purpose: Purpose, keys: Mapping[str, Callable[..., object]]
    ) -> None:
        self._where = f"{getattr(function, '__qualname__', function)!s} guarded by {purpose.name!r}"
        self._purpose = purpose
        signature = inspect.signature(function)
        lease = signature.parameters.get(_LEASE)
        self.takes_lease = lease is not None and lease.kind not in _VARIADIC
        if lease is not None and lease.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise self._wrong("the parameter 'lease' is passed by name, so it must not be positional-only")
        if self.takes_lease and _LEASE in purpose.parameters:
            raise self._wrong("'lease' is a parameter of the pattern, so it cannot also receive the lease")
        # Without the lease: a caller that inspects the signature (a framework) must not try to pass it.
        shown = [each for each in signature.parameters.values() if not (self.takes_lease and each is lease)]
        self.signature = signature.replace(parameters=shown)
        own = {name for name, each in self.signature.parameters.items() if each.kind not in _VARIADIC}
        if surplus := [name for name in keys if name not in purpose.parameters]:
            purpose.check_parameters([*purpose.parameters, *surplus])
        purpose.check_parameters([name for name in purpose.parameters if name in keys or name in own])
        self._keys = {name: self._reader(name, keys.get(name)) for name in purpose.parameters}

    def lock_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The name of the lock for a call with these arguments."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._purpose.lock_name(**{name: read(bound.arguments) for name, read in self._keys.items()})

    def _reader(
        self, parameter: str, key: Callable[..., object] | None
    ) -> Callable[[Mapping[str, Any]], object]:
        """A function that reads the value of ``parameter`` from the named arguments of a call."""
        if key is None:
            return lambda arguments: arguments[parameter]
        if not callable(key):
            raise self._wrong(f"the key {parameter} must be a function, not {type(key).__name__}")
        if inspect.iscoroutinefunction(key):
            raise self._wrong(f"the key function of {parameter} must not be asynchronous")
        asked = [each for each in inspect.signature(key).parameters.values() if each.kind not in _VARIADIC]
        names = [each.name for each in asked if each.default is inspect.Parameter.empty]
        there = {name: name for name in names if name in self.signature.parameters}
        if len(names) == 1 and not there and (first := self._first_argument()):
            there = {names[0]: first}
        if unknown := [name for name in names if name not in there]:
            raise self._wrong(
                f"the key function of {parameter} needs {', '.join(unknown)}, "
                f"but the function's parameters are {', '.join(self.signature.parameters) or 'none'}"
            )
        by_position = {each.name for each in asked if each.kind in _POSITIONAL}

        def read(arguments: Mapping[str, Any]) -> object:
            positional = [arguments[there[name]] for name in names if name in by_position]
            named = {name: arguments[there[name]] for name in names if name not in by_position}
            return key(*positional, **named)

        return read

    def _first_argument(self) -> str | None:
        for each in self.signature.parameters.values():
            if each.kind in _POSITIONAL and each.name not in {"self", "cls"}:
                return each.name
        return None

    def _wrong(self, message: str) -> InvalidRequest:
        return InvalidRequest(f"{self._where}: {message}")
