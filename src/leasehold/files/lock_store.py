"""Store of file locks: the library's locks, with leases that move within a session and can be upgraded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.core.validity import to_ms
from leasehold.files import scripts
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.record import parse_holding
from leasehold.valkey.store import ValkeyStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.core.replies import Grant, Mode, NotAfter
    from leasehold.valkey.record import Holding
    from leasehold.valkey.transport.protocols import Connection, Transport, Word


class UpgradeConflict(NamedTuple):
    """Another reader, for which a reader cannot write yet. ``is_deadlock``: it was first to request the same upgrade."""

    holding: Holding | None
    remaining: float
    is_deadlock: bool


class FileLockStore(ValkeyStore):
    """The locks of files. Both verbs can be repeated after a lost reply."""

    def __init__(self, wire: Transport, **options: Any) -> None:
        super().__init__(wire, **options)
        self._resume = ScriptCommand(self._namespace, scripts.RESUME)
        self._upgrade = ScriptCommand(self._namespace, scripts.UPGRADE)

    async def resume(
        self, name: str, token: str, ticket: int, ttl: float, old_tokens: Sequence[str]
    ) -> tuple[Grant, Mode] | None:
        """Move the lease of one of ``old_tokens`` to ``token``, with its fence; None if none of them has one."""
        fence, left_ms, kind = await self._runner.run(
            self._resume, name, token, "".join(old_tokens), self._transport.channel, ticket, to_ms(ttl)
        )
        return ((fence, left_ms / 1000, None), "shared" if kind == b"s" else "exclusive") if fence else None

    async def upgrade(
        self,
        name: str,
        reader: str,
        token: str,
        ticket: int,
        ttl: float,
        holder: str,
        wait: float,
        not_after: NotAfter,
    ) -> Grant | UpgradeConflict | None:
        """Turn the lease of ``reader`` into a writer's under ``token``; None if the reader's has ended.

        With a ``wait`` the token stands first in the queue until the call is repeated, so that no new reader gets in.
        `TooLate` if the request reaches the store after ``not_after``: nothing was done.
        """

        def arguments(connection: Connection, not_after_ms: int) -> tuple[Word, ...]:
            record, ttl_ms, floor = self._grant_arguments(
                connection, token, ticket, ttl, 0, holder, "exclusive"
            )
            return record, reader, ttl_ms, floor, to_ms(wait), self._live_ms, not_after_ms

        reply = await self._runner.run_before(not_after, self._upgrade, name, arguments)
        first, second, public = reply
        if first > 0:
            return first, second / 1000, None
        if first == -2:
            return None
        return UpgradeConflict(parse_holding(public), max(second, 0) / 1000, first == -1)
