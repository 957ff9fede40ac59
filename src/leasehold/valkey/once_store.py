"""Results on Valkey or Redis: ``idempotency:{KEY}`` holds what is kept, ``idempotency:{KEY}:lock`` who is at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core.validity import to_ms
from leasehold.errors import InvalidRequest
from leasehold.valkey import scripts
from leasehold.valkey.commands import ScriptVerb, Verb
from leasehold.valkey.script_runner import Runner
from leasehold.valkey.store import ValkeyStore

if TYPE_CHECKING:
    from leasehold.valkey.transport.protocols import Wire

# What is kept begins with one of these, so that a mark is never read as a result.
_RESULT = "r"
_MARK = "m"


class ValkeyResults:
    """Implements `leasehold.core.ports.Results`; ``leases`` protect the runs, in the same hash slot."""

    def __init__(self, wire: Wire, *, namespace: str, live: float) -> None:
        # "lock" keeps its name for locks alone; whatever was set apart for results goes beside it.
        own = "idempotency" if namespace == "lock" else f"{namespace}:idempotency"
        self.leases = ValkeyStore(wire, namespace=own, live=live, bare="result")
        self._runner = Runner(wire)
        self._recall = Verb(own, (b"GET",), ("result",), 0, "result")
        self._finish = ScriptVerb(own, scripts.FINISH, "result")
        self._first_time = ScriptVerb(own, scripts.FIRST_TIME, "result")

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
