"""`leasehold doctor`: checks of a store, before it is trusted with locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.valkey.doctor import server_checks, topology_checks
from leasehold.valkey.doctor.server_checks import Finding
from leasehold.valkey.doctor.topology import read_topology
from leasehold.valkey.transport.handshake import parse_info

if TYPE_CHECKING:
    from leasehold.core.engine import Engine
    from leasehold.valkey.transport.protocols import Transport

__all__ = ["Finding", "diagnose"]


async def diagnose(transport: Transport, engine: Engine[Any]) -> list[Finding]:
    """Run all checks, in the order to read them. Changes nothing but a trial lock.

    Raises `StoreError` only if the server cannot be reached at all.
    """
    reply = await server_checks.ask(transport, "INFO")
    info = parse_info(reply)
    topology = await read_topology(transport, info)
    return [
        server_checks.check_server(info, reply),
        server_checks.check_role(info, transport.min_replicas),
        server_checks.check_eviction(info),
        server_checks.check_persistence(info),
        await server_checks.check_scripts(engine),
        await server_checks.check_round_trip(transport),
        await server_checks.check_clock(transport),
        *topology_checks.check(topology),
    ]
