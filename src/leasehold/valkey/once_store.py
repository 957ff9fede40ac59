"""The store of `once` on Valkey or Redis: ``idempotency:{KEY}`` keeps a result, ``idempotency:{KEY}:lock`` locks the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core.validity import to_ms
from leasehold.errors import InvalidRequest
from leasehold.valkey import scripts
from leasehold.valkey.commands import Command, ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner
from leasehold.valkey.store import ValkeyStore

if TYPE_CHECKING:
    from leasehold.valkey.transport.protocols import Transport

# Every value begins with one of these, so that a mark is never read as a result.
_RESULT = "r"
_MARK = "m"


class ValkeyOnceStore:
    """Implements `leasehold.core.ports.Results`; ``leases`` protect the runs, in the same hash slot."""

    def __init__(self, transport: Transport, *, namespace: str, live: float) -> None:
        # The default namespace "lock" is for locks alone; any other gets its results as a sub-namespace.
        own = "idempotency" if namespace == "lock" else f"{namespace}:idempotency"
        self.leases = ValkeyStore(transport, namespace=own, live=live, bare="result")
        self._runner = ScriptRunner(transport)
        self._recall = Command(own, (b"GET",), ("result",), 0, "result")
        self._finish = ScriptCommand(own, scripts.FINISH, "result")
        self._first_time = ScriptCommand(own, scripts.FIRST_TIME, "result")
        self._unmark = ScriptCommand(own, scripts.UNMARK, "result")

    async def recall(self, key: str) -> str | None:
        """See the port."""
        reply = await self._runner.get(self._recall, key)
        if reply is None:
            return None
        text = reply.decode()
        if not text.startswith(_RESULT):
            raise InvalidRequest(
                f"{key!r} is a mark of first_time; it has no result, so use another key with once"
            )
        return text[1:]

    async def keep(self, key: str, token: str, value: str, ttl: float) -> bool:
        """See the port."""
        return await self._runner.run(self._finish, key, token, _RESULT + value, to_ms(ttl)) == 1

    async def mark(self, key: str, mark: str, ttl: float) -> bool:
        """See the port."""
        return await self._runner.run(self._first_time, key, _MARK + mark, to_ms(ttl)) == 1

    async def unmark(self, key: str, mark: str) -> None:
        """See the port."""
        await self._runner.run(self._unmark, key, _MARK + mark)
