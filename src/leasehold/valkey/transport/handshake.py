"""The handshake of every connection: its commands, and the facts in the server's replies."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import StoreError, StoreRefused, StoreUnavailable
from leasehold.valkey import scripts
from leasehold.valkey.transport import error_mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Reply, Word

_log = logging.getLogger("leasehold")


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about the server, as of the handshake."""

    kind: str
    version: str
    time_us: int
    maxmemory: int | None
    eviction: str | None
    aof_enabled: bool | None
    is_replicated: bool
    """Another server has, or had, the same data, and either may grant: it has replicas or was one, or is in a cluster.
    True if unknown."""
    replication_id: str | None
    """The history of writes that this server has; None if unknown."""

    @property
    def floor(self) -> int | None:
        """The least fence of a grant; None if each grant must read the clock.

        A primary that is cut off goes on granting, some fences by its clock. The replica that is promoted in its
        place would stay behind those for long if it counted by one from where this connection began.
        """
        return None if self.is_replicated else self.time_us

    @property
    def deletes_if_equal(self) -> bool:
        """The server supports DELIFEQ: Valkey does from 9.0 on."""
        major = self.version.partition(".")[0]
        return self.kind == "valkey" and major.isdecimal() and int(major) >= 9

    @property
    def may_evict(self) -> bool:
        """The server evicts keys, and so locks, when memory runs short."""
        return bool(self.maxmemory) and self.eviction not in {None, "noeviction"}


def commands(endpoint: Endpoint, client_name: str) -> list[tuple[Word, ...]]:
    """The commands of the handshake: authenticate, select the database, query the server, load the scripts."""
    hello: tuple[Word, ...] = ("HELLO", 3)
    if endpoint.password is not None:
        hello += ("AUTH", endpoint.username or "default", endpoint.password)
    return [
        (*hello, "SETNAME", client_name),
        ("SELECT", endpoint.db),
        ("INFO", "memory"),
        ("INFO", "persistence"),
        ("INFO", "replication"),
        *[("SCRIPT", "LOAD", script.source) for script in scripts.ALL],
        # Waits for nothing: shows that this user may run it.
        *([("WAIT", 0, 1)] if endpoint.min_replicas else []),
        # Last, so that the reply is as fresh as possible.
        ("TIME",),
    ]


def read_replies(replies: Sequence[Reply], endpoint: Endpoint, *, allow_eviction: bool) -> ServerFacts:
    """The facts in the replies to `commands`; raises `StoreError` if the server refuses us.

    A server that evicts keys is refused: it would drop locks that are held.
    """
    hello, select, memory, persistence, replication, *loads, time = replies
    _check_role(hello, endpoint)
    for reply in (hello, select, *loads, time):
        if isinstance(reply, StoreError):
            raise reply  # the connection broke before the reply came
        if isinstance(reply, Exception):
            if "unknown command" in str(reply) and reply is hello:
                # Without its text as the cause: it repeats the password that it was sent.
                raise StoreRefused("the server is too old: Redis 6.2 or newer, or Valkey, is needed")
            raise error_mapping.from_reply(str(reply), reply)
    about: dict[bytes, bytes] = hello  # a map, since HELLO 3 has switched to RESP3
    memory_facts, persistence_facts = parse_info(memory), parse_info(persistence)
    replication_facts = parse_info(replication)
    maxmemory = memory_facts.get("maxmemory")
    aof = persistence_facts.get("aof_enabled")
    facts = ServerFacts(
        kind=_text(about.get(b"server", b"redis")),
        version=_text(about.get(b"version", b"?")),
        time_us=int(time[0]) * 1_000_000 + int(time[1]),
        maxmemory=int(maxmemory) if maxmemory is not None else None,
        eviction=memory_facts.get("maxmemory_policy"),
        aof_enabled=None if aof is None else aof == "1",
        # A service has replicas, even if it had none so far. A slot of a cluster may come from a node whose clock is ahead.
        is_replicated=endpoint.service is not None
        or endpoint.in_cluster
        or endpoint.min_replicas > 0
        or _is_replicated(replication_facts),
        replication_id=replication_facts.get("master_replid"),
    )
    if facts.may_evict and not allow_eviction:
        raise StoreRefused(
            f"the server evicts keys when memory runs short (maxmemory-policy {facts.eviction}), which would "
            "drop locks that are held; set maxmemory-policy noeviction, or pass allow_eviction=True"
        )
    return facts


def _check_role(hello: Reply, endpoint: Endpoint) -> None:
    if not isinstance(hello, dict):
        return
    about = cast("dict[bytes, bytes]", hello)
    if about.get(b"mode") == b"sentinel":
        raise StoreRefused(
            f"{endpoint} is a sentinel: name it in a store URL with sentinels, redis+sentinel://host1,host2/service"
        )
    is_in_cluster = about.get(b"mode") == b"cluster"
    if is_in_cluster and not endpoint.in_cluster:
        raise StoreRefused(
            f"{endpoint} is a node of a cluster: name it in a store URL for those, redis+cluster://host1,host2"
        )
    if endpoint.in_cluster and about.get(b"role") != b"master":
        # The map of the cluster has not been read again yet, or the cluster has not noticed it.
        raise StoreUnavailable(f"{endpoint} is not a primary of the cluster now")
    if endpoint.service is not None and about.get(b"role") != b"master":
        # The sentinels have not noticed it yet, or this one has not.
        raise StoreUnavailable(f"{endpoint} is not the primary of the service {endpoint.service!r} now")


def _is_replicated(facts: dict[str, str]) -> bool:
    # A replica that was promoted has the id of its former primary (from an offset on), until it is restarted. A primary
    # whose replicas are away keeps its backlog for them, for an hour by default.
    alone = {
        "role": "master",
        "connected_slaves": "0",
        "second_repl_offset": "-1",
        "repl_backlog_active": "0",
    }
    return any(facts.get(field) != value for field, value in alone.items())


def warn_about(facts: ServerFacts, endpoint: Endpoint) -> None:
    """Log, once, the settings of this server that endanger locks."""
    if facts.eviction is None:
        _warn(f"{endpoint} does not show its eviction policy; locks are safe only with noeviction")
    elif facts.may_evict:
        _warn(f"{endpoint} evicts keys ({facts.eviction}), so locks that are held may vanish")
    if facts.aof_enabled is False:
        _warn(f"{endpoint} has no append-only file: a restart loses all held locks, though fences still grow")


def warn_no_notifications(server: object, refusal: BaseException) -> None:
    """Log, once, that waiters have to poll."""
    _warn(f"{server} refuses subscriptions, so waiters poll every retry_interval instead: {refusal}")


def warn_no_switches(sentinels: object, refusal: BaseException) -> None:
    """Log, once, that sentinels do not report fail-overs to us."""
    _warn(
        f"sentinels {sentinels} refuse us, so a fail-over is noticed only by the primary's silence: {refusal}"
    )


@functools.lru_cache(maxsize=64)  # a program may open many clients; one warning for each server is enough
def _warn(message: str) -> None:
    _log.warning(message)


def parse_info(reply: Any) -> dict[str, str]:
    """The fields of a reply to INFO; empty if the server refused it."""
    if isinstance(reply, dict):  # redis-py parses it by itself
        return {str(key): str(value) for key, value in cast("dict[Any, Any]", reply).items()}
    if not isinstance(reply, bytes | str):
        return {}  # managed servers may deny INFO; then nothing is known, and `warn_about` logs that
    lines = _text(reply).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
