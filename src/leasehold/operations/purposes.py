"""Lock purposes: kinds of locks with a name, a pattern for their keys, and their own times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

from leasehold.core import validation
from leasehold.errors import InvalidRequest
from leasehold.operations.lock_names import Pattern

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class _Default(float):
    """A number of seconds that nobody has asked for, so that a configured default may take its place."""

    __slots__ = ()


class LockOptions(TypedDict):
    """The keyword arguments of `leasehold.Client.lock` that a purpose decides."""

    ttl: float
    wait: float | None
    retry_interval: float | None
    renew: bool
    max_hold: float | None


@dataclass(frozen=True, slots=True)
class Purpose:
    """A kind of lock: ``Purpose("payout", "payout:{deal_id}", ttl=60)``. Times are in seconds.

    ``ttl``, ``wait``, ``renew`` and ``max_hold`` are those of `leasehold.Client.lock`; ``retry_interval`` is how
    often a waiter looks in case it is not told, None for as often as the client does. Everything is checked
    here; `InvalidRequest` lists all that is wrong.
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
        object.__setattr__(self, "pattern", Pattern.parse(self.pattern).text)

    @property
    def parameters(self) -> tuple[str, ...]:
        """What a name of this purpose is made from, in the order of the pattern."""
        return Pattern.parse(self.pattern).parameters

    def lock_name(self, **parameters: object) -> str:
        """The lock's name for these values; `InvalidRequest` if one is missing, unknown or no value for a name."""
        try:
            return Pattern.parse(self.pattern).fill(parameters)
        except InvalidRequest as error:
            raise InvalidRequest(f"purpose {self.name!r}: {error}") from None

    def options(self) -> LockOptions:
        """What to ask `leasehold.Client.lock` for."""
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
            Pattern.parse(self.pattern).check_parameters(given)
        except InvalidRequest as error:
            raise InvalidRequest(f"purpose {self.name!r}: {error}") from None

    def with_defaults(self, defaults: Mapping[str, Any]) -> Purpose:
        """This purpose, with ``defaults`` for what it was not given itself."""
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
            yield "its name must be lower-case letters, digits and underscores, beginning with a letter"
        if type(self.renew) is not bool:
            yield f"renew must be true or false, not {self.renew!r}"
        checks: list[Callable[[], object]] = [
            lambda: Pattern.parse(self.pattern),
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
                "is one of them in milliseconds?"
            )


class Purposes(Mapping[str, Purpose]):
    """The purposes of an application by name, complete and checked: ``Purposes([Purpose(...), ...])``.

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
        """The purpose of that name; `InvalidRequest` with the names there are if it is none of them."""
        purpose = self._by_name.get(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        if purpose is None:
            raise InvalidRequest(
                f"there is no purpose {name!r}, only {', '.join(self._by_name) or 'none at all'}"
            )
        return purpose

    def purpose_of(self, lock_name: str) -> str | None:
        """The name of the first purpose that ``lock_name`` can belong to; None if it is none of them.

        For `leasehold.observe.observe(locks, purpose_of=purposes.purpose_of)`.
        """
        matching = (each for each in self._by_name.values() if Pattern.parse(each.pattern).matches(lock_name))
        return next((each.name for each in matching), None)

    @classmethod
    def from_toml(cls, path: Path | str, *, base: Purposes | None = None) -> Purposes:
        """The purposes that the TOML file at ``path`` describes, on top of those of ``base``.

        A purpose of ``base`` keeps what the file does not say, and its parameters. `InvalidRequest` lists
        everything that is wrong with the file.
        """
        from leasehold.operations import configuration  # noqa: PLC0415 - it makes purposes, so it needs us first

        return configuration.from_toml(path, base or cls(()))

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, base: Purposes | None = None) -> Purposes:
        """What ``environ`` says (``os.environ``, passed by the caller), on top of the purposes of ``base``.

        ``LEASEHOLD_PURPOSE_PAYOUT_TTL=90s``, or ``_WAIT``, ``_RETRY_INTERVAL``, ``_RENEW``, ``_MAX_HOLD``, ``_PATTERN``;
        ``LOCK_DEFAULT_TTL``, ``LOCK_ACQUISITION_TIMEOUT`` and ``LOCK_RETRY_INTERVAL`` for purposes that say nothing else.
        `InvalidRequest` lists everything that is wrong with it.
        """
        from leasehold.operations import configuration  # noqa: PLC0415 - as above

        return configuration.from_environ(environ, base or cls(()))


def check_purposes(purposes: Purposes) -> Purposes:
    """``purposes`` itself if it is a registry."""
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
        # Whoever finds these two taken has nothing to wait for: the work is being done.
        Purpose("outbox_poller", "outbox:poller", ttl=30, wait=0, max_hold=300),
        Purpose("reconciliation", "reconciliation", ttl=300, wait=0, max_hold=4 * 3600),
    ]
)
"""The purposes of an escrow service."""
