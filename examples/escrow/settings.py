"""The settings of the service, from the environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from leasehold.operations import STANDARD, Purposes

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """``ESCROW_DATABASE_URL``, ``ESCROW_STORE_URL``, ``ESCROW_NAMESPACE``, ``ESCROW_GUARDS`` and the times of the locks.

    The times are those of `STANDARD` unless variables such as ``LEASEHOLD_PURPOSE_PAYOUT_TTL=90s`` change them.
    """

    database_url: str
    store_url: str | None
    namespace: str
    has_guards: bool
    purposes: Purposes

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self:
        guards = environ.get("ESCROW_GUARDS", "on")
        if guards not in {"on", "off"}:
            raise ValueError(f"ESCROW_GUARDS must be on or off, not {guards!r}")
        return cls(
            database_url=environ.get("ESCROW_DATABASE_URL") or "sqlite+aiosqlite:///escrow.db",
            store_url=environ.get("ESCROW_STORE_URL") or None,
            namespace=environ.get("ESCROW_NAMESPACE") or "lock",
            has_guards=guards == "on",
            purposes=Purposes.from_environ(environ, base=STANDARD),
        )
