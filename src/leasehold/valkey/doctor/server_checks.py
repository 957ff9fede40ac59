"""Checks of one server: its settings, its scripts, its distance and its clock."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from leasehold.errors import LockBusy, StoreError
from leasehold.valkey.transport import error_mapping

if TYPE_CHECKING:
    from leasehold.core.engine import Engine
    from leasehold.valkey.transport.protocols import Reply, Transport, Word

Status = Literal["ok", "warn", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with advice unless it is ok."""

    check: str
    status: Status
    value: str
    advice: str | None = None


_TRIAL = "leasehold-doctor"
_PINGS = 9
_OLDEST_REDIS = (6, 2)


def check_server(info: dict[str, str], reply: Reply) -> Finding:
    """The kind and the version of the server."""
    kind = info.get("server_name", "redis")
    version = info.get(f"{kind}_version", info.get("redis_version"))
    if version is None:
        reason = str(reply) if isinstance(reply, Exception) else "an unreadable reply"
        return Finding("server", "warn", f"unknown: {reason}", "Allow this user INFO (ACL SETUSER … +info).")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    named = f"{kind.capitalize()} {version}"
    if kind == "redis" and numbers < _OLDEST_REDIS:
        return Finding("server", "problem", named, "Use Redis 6.2 or newer, or Valkey.")
    return Finding("server", "ok", named)


def check_role(info: dict[str, str], min_replicas: int) -> Finding:
    """Whether it is a primary, with enough replicas."""
    role = info.get("role")
    if role is None:
        return Finding("role", "warn", "unknown", "Make sure that this is a primary and not a replica.")
    if role == "slave":
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        return Finding(
            "role", "problem", f"replica of {primary}", "Connect to the primary: replicas grant no locks."
        )
    replicas = info.get("connected_slaves", "0")
    if int(replicas) < min_replicas:
        return Finding(
            "role",
            "problem",
            f"primary, replicas: {replicas}, min_replicas: {min_replicas}",
            "Add replicas, or lower min_replicas in the store URL: no lock is granted without so many.",
        )
    return Finding("role", "ok", "primary" if replicas == "0" else f"primary, replicas: {replicas}")


def check_eviction(info: dict[str, str]) -> Finding:
    """Whether it drops keys when memory runs short."""
    policy, limit = info.get("maxmemory_policy"), info.get("maxmemory")
    if policy is None or limit is None:
        return Finding("eviction", "warn", "unknown", "Locks are safe only with maxmemory-policy noeviction.")
    if policy == "noeviction":
        return Finding("eviction", "ok", policy)
    if limit == "0":
        return Finding(
            "eviction",
            "ok",
            f"{policy}, but without a memory limit",
            "Before setting maxmemory, set maxmemory-policy noeviction.",
        )
    return Finding(
        "eviction",
        "problem",
        f"{policy} with maxmemory {info.get('maxmemory_human', limit)}",
        "Set maxmemory-policy noeviction: this server drops held locks when memory runs short.",
    )


def check_persistence(info: dict[str, str]) -> Finding:
    """Whether a restart keeps the holders."""
    aof = info.get("aof_enabled")
    if aof is None:
        return Finding("persistence", "warn", "unknown", "Make sure that appendonly is on.")
    failing = [
        key for key in ("aof_last_write_status", "rdb_last_bgsave_status") if info.get(key, "ok") != "ok"
    ]
    if failing:
        return Finding(
            "persistence",
            "problem",
            f"failing: {failing[0]} is {info[failing[0]]}",
            "Check the server's log and its disk: it may refuse every write until it can save again.",
        )
    if aof == "1":
        return Finding("persistence", "ok", "append-only file")
    return Finding(
        "persistence",
        "warn",
        "no append-only file",
        "Set appendonly yes: a restart loses all held locks. Fences still grow.",
    )


async def check_scripts(engine: Engine[Any]) -> Finding:
    """Acquire and release a real lock: tests scripts, permissions and writes together."""
    try:
        lease = await engine.acquire(
            _TRIAL,
            ttl=5,
            wait=0,
            mode="exclusive",
            holder="leasehold doctor",
            renew=False,
            max_hold=None,
            floor=None,
        )
        await engine.release(lease)
    except LockBusy:
        return Finding("scripts", "ok", "run (another doctor holds the trial lock)")
    except StoreError as error:
        return Finding(
            "scripts",
            "problem",
            f"no lock was granted: {error}",
            "Fix this first: nothing can be locked on this server.",
        )
    return Finding("scripts", "ok", "a trial lock was acquired and released")


async def check_round_trip(transport: Transport) -> Finding:
    """The time of a request."""
    times: list[float] = []
    for _ in range(_PINGS):
        sent_at = time.perf_counter()
        await ask(transport, "PING")
        times.append(time.perf_counter() - sent_at)
    median, worst = statistics.median(times) * 1000, max(times) * 1000
    value = f"{median:.2f} ms (slowest of {_PINGS}: {worst:.2f} ms)"
    if median < 50:
        return Finding("round trip", "ok", value)
    return Finding(
        "round trip", "warn", value, "Use a nearer server, or a ttl of at least a hundred round trips."
    )


async def check_clock(transport: Transport) -> Finding:
    """The server's clock, compared with this machine's."""
    sent_at = time.time()
    reply = await ask(transport, "TIME")
    received_at = time.time()
    if isinstance(reply, Exception):
        return Finding("clock", "warn", f"unknown: {reply}", "Allow this user TIME: fences depend on it.")
    seconds, microseconds = (int(part) for part in cast("list[bytes]", reply))
    ahead = seconds + microseconds / 1e6 - (sent_at + received_at) / 2
    # At which point of the round trip the clock was read is unknown.
    error = (received_at - sent_at) / 2
    value = f"server is {abs(ahead):.3f} s {'ahead of' if ahead >= 0 else 'behind'} this machine (± {error:.3f} s)"
    off = max(0.0, abs(ahead) - error)
    if off < 1:
        return Finding("clock", "ok", value)
    return Finding(
        "clock",
        "warn" if off < 60 else "problem",
        value,
        "Let NTP set both clocks. The server ends leases by its own clock: setting it in one step, "
        "while locks are held, ends them early or late.",
    )


async def ask(transport: Transport, *words: Word) -> Reply:
    """The reply to a command, also an error; raises `StoreError` if there is none."""
    connection = await transport.get_connection()
    reply = await connection.call(*words)
    if isinstance(reply, StoreError):
        raise error_mapping.copy_of(reply)
    return reply
