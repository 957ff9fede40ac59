"""Lock purposes: kinds of locks with a name, a pattern for lock names, and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from leasehold.core import validation
from leasehold.errors import InvalidRequest
from leasehold.operations.lock_names import LockNamePattern

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class _Default(float):
    """A default number of seconds, which a configured default may replace."""

    __slots__ = ()


class LockOptions(TypedDict):
    """The keyword arguments of `leasehold.Client.lock` that a purpose sets."""

    ttl: float
    wait: float | None
    retry_interval: float | None
    renew: bool
    max_hold: float | None


@dataclass(frozen=True, slots=True)
class Purpose:
    """A kind of lock: ``Purpose("payout", "payout:{deal_id}", ttl=60)``. Times are in seconds.

    ``ttl``, ``wait``, ``renew`` and ``max_hold`` are those of `leasehold.Client.lock`; ``retry_interval`` is how
    often a waiter polls in case a notification is lost, None for the client's own interval. Everything is checked
    here; `InvalidRequest` lists all errors.
    """

    name: str
    pattern: str
    ttl: float = _Default(30)
    wait: float | None = _Default(5)
    retry_interval: float | None = None
    renew: bool = True
    max_hold: float | None = None

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidRequest(f"purpose {self.name!r}: " + "; ".join(problems))
        object.__setattr__(self, "pattern", LockNamePattern.parse(self.pattern).text)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the pattern, in its order."""
        return LockNamePattern.parse(self.pattern).parameters

    def lock_name(self, **parameters: object) -> str:
        """The lock's name for these values; `InvalidRequest` if one is missing, unknown or invalid in a name."""
        try:
            return LockNamePattern.parse(self.pattern).fill(parameters)
        except InvalidRequest as error:
            raise InvalidRequest(f"purpose {self.name!r}: {error}") from None

    def options(self) -> LockOptions:
        """The keyword arguments for `leasehold.Client.lock`."""
        return {
            "ttl": float(self.ttl),
            "wait": None if self.wait is None else float(self.wait),
            "retry_interval": self.retry_interval,
            "renew": self.renew,
            "max_hold": self.max_hold,
        }

    def check_parameters(self, given: Iterable[str]) -> None:
        """Raise `InvalidRequest` unless ``given`` are the names of exactly this purpose's parameters."""
        try:
            LockNamePattern.parse(self.pattern).check_parameters(given)
        except InvalidRequest as error:
            raise InvalidRequest(f"purpose {self.name!r}: {error}") from None

    def with_defaults(self, defaults: Mapping[str, Any]) -> Purpose:
        """This purpose, with ``defaults`` for the settings that it was not given."""
        return replace(
            self,
            **{
                key: value
                for key, value in defaults.items()
                if isinstance(getattr(self, key), _Default)
                or (key == "retry_interval" and self.retry_interval is None)
            },
        )

    def _problems(self) -> Iterator[str]:
        if not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            yield "the name must be lower-case letters, digits and underscores, beginning with a letter"
        if type(self.renew) is not bool:
            yield f"renew must be true or false, not {self.renew!r}"
        checks: list[Callable[[], object]] = [
            lambda: LockNamePattern.parse(self.pattern),
            lambda: validation.check_ttl(self.ttl),
            lambda: validation.check_wait(self.wait),
            lambda: validation.check_max_hold(self.max_hold),
            self._check_retry_interval,
        ]
        for check in checks:
            try:
                check()
            except InvalidRequest as error:
                yield str(error)

    def _check_retry_interval(self) -> None:
        if self.retry_interval is None:
            return
        validation.check_duration(self.retry_interval, "retry_interval")
        wait = self.wait
        if isinstance(wait, int | float) and 0 < wait < self.retry_interval:
            raise InvalidRequest(
                f"retry_interval ({self.retry_interval:g} s) must not be longer than wait ({wait:g} s); "
                "check that both are in seconds"
            )


class Purposes(Mapping[str, Purpose]):
    """The validated purposes of an application by name: ``Purposes([Purpose(...), ...])``.

    Iterating gives names, as with every mapping; ``values()`` gives the purposes.
    """

    def __init__(self, purposes: Iterable[Purpose]) -> None:
        self._by_name: dict[str, Purpose] = {}
        for purpose in purposes:
            if not isinstance(purpose, Purpose):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
                raise InvalidRequest(f"Purposes are made of Purpose, not {type(purpose).__name__}")
            if purpose.name in self._by_name:
                raise InvalidRequest(f"there are two purposes named {purpose.name!r}")
            self._by_name[purpose.name] = purpose

    def __getitem__(self, name: str) -> Purpose:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Purposes({list(self._by_name.values())!r})"

    def find(self, name: str) -> Purpose:
        """The purpose of this name; otherwise `InvalidRequest`, which lists the known names."""
        purpose = self._by_name.get(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        if purpose is None:
            raise InvalidRequest(
                f"there is no purpose {name!r}; known purposes: {', '.join(self._by_name) or 'none'}"
            )
        return purpose

    def purpose_of(self, lock_name: str) -> str | None:
        """The name of the first purpose whose pattern ``lock_name`` fits, or None.

        For `leasehold.observe.observe(locks, purpose_of=purposes.purpose_of)`.
        """
        matching = (
            each for each in self._by_name.values() if LockNamePattern.parse(each.pattern).matches(lock_name)
        )
        return next((each.name for each in matching), None)

    @classmethod
    def from_toml(cls, path: Path | str, *, base: Purposes | None = None) -> Purposes:
        """The purposes of the TOML file at ``path``, on top of those of ``base``.

        A purpose of ``base`` keeps its parameters, and the settings that the file does not have. `InvalidRequest`
        lists all errors in the file.
        """
        from leasehold.operations import configuration  # noqa: PLC0415 - it imports this module

        return configuration.from_toml(path, base or cls(()))

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, base: Purposes | None = None) -> Purposes:
        """The purposes that ``environ`` (``os.environ``, passed by the caller) sets, on top of those of ``base``.

        ``LEASEHOLD_PURPOSE_PAYOUT_TTL=90s``, or ``_WAIT``, ``_RETRY_INTERVAL``, ``_RENEW``, ``_MAX_HOLD``, ``_PATTERN``;
        ``LOCK_DEFAULT_TTL``, ``LOCK_ACQUISITION_TIMEOUT`` and ``LOCK_RETRY_INTERVAL`` for purposes without their own.
        `InvalidRequest` lists all errors.
        """
        from leasehold.operations import configuration  # noqa: PLC0415 - as above

        return configuration.from_environ(environ, base or cls(()))


def check_purposes(purposes: Purposes) -> Purposes:
    """Return ``purposes``, or raise `InvalidRequest` if it is of another type."""
    if not isinstance(purposes, Purposes):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"Operations takes Purposes, not {type(purposes).__name__}")
    return purposes


STANDARD = Purposes(
    [
        Purpose("deal", "deal:{deal_id}", ttl=30, max_hold=300),
        Purpose("payout", "payout:{deal_id}", ttl=60, max_hold=600),
        Purpose("refund", "refund:{deal_id}", ttl=60, max_hold=600),
        Purpose("deposit", "deposit:{deal_id}", ttl=30, max_hold=300),
        Purpose("balance", "balance:{account_id}", ttl=10, max_hold=60),
        # For these two a busy lock means that the work is being done, so waiting is pointless.
        Purpose("outbox_poller", "outbox:poller", ttl=30, wait=0, max_hold=300),
        Purpose("reconciliation", "reconciliation", ttl=300, wait=0, max_hold=4 * 3600),
    ]
)
"""The purposes of an escrow service."""
