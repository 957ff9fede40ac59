"""Checks of a store as a whole: what fails over, and what this deployment survives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from leasehold.valkey.doctor.server_checks import Finding
from leasehold.valkey.transport.cluster.slots import SLOTS

if TYPE_CHECKING:
    from leasehold.valkey.doctor.server_checks import Status
    from leasehold.valkey.doctor.topology import ClockReading, Sentinel, Topology

# What sentinels need once they hold the primary for down: their votes, the promotion, and telling the others.
_FAIL_OVER = 3.0
_FEW_SENTINELS = 3
_FAR_BEHIND = 1 << 20
_FAR_APART = 0.5


def check(topology: Topology) -> list[Finding]:
    """What there is, whether it is in order, and what it is good for."""
    if topology.service is not None:
        return [
            _sentinels(topology),
            _replicas(topology),
            _clocks(topology),
            *_survives_with_sentinels(topology),
        ]
    if topology.shards:
        return [_shards(topology), _clocks(topology), *_survives_as_cluster(topology)]
    if topology.replicas:
        return [_replicas(topology), _clocks(topology), *_survives_with_replicas(topology)]
    return _survives(topology, [], ["the loss of the server, until it is back"])


def _sentinels(topology: Topology) -> Finding:
    alive = _alive(topology)
    named = ", ".join(f"{each.address} {each.failure or 'ok'}" for each in topology.sentinels)
    if not alive:
        return Finding("sentinels", "problem", named, "Start them: without them no replica is promoted.")
    quorum = alive[0].quorum
    value = f"{named}; quorum {quorum} for {topology.service!r}"
    primaries = Counter(each.primary for each in alive)
    if len(primaries) > 1:
        views = ", ".join(f"{primary} ({count})" for primary, count in primaries.most_common())
        return Finding(
            "sentinels",
            "problem",
            f"{value}; they name different primaries: {views}",
            "If a fail-over is going on, ask again in a minute. Else reset those that are wrong (SENTINEL RESET).",
        )
    if not any(each.has_quorum for each in alive):
        return Finding(
            "sentinels",
            "problem",
            f"{value}; they have no quorum",
            "Start more of them, or correct the quorum: until then no replica is promoted.",
        )
    if len(alive) < len(topology.sentinels):
        return Finding(
            "sentinels", "warn", value, "Start those that do not reply, or remove them from the URL."
        )
    if len(alive) < _FEW_SENTINELS:
        return Finding("sentinels", "warn", value, "Run three or more, on machines that fail apart.")
    return Finding("sentinels", "ok", value)


def _replicas(topology: Topology) -> Finding:
    if not topology.is_known:
        return Finding("replicas", "warn", "unknown", "Allow this user INFO (ACL SETUSER … +info).")
    if not topology.replicas:
        return Finding(
            "replicas", "problem", "none", "Add a replica: nothing can take over from the primary."
        )
    value = ", ".join(
        f"{each.address} {each.state}, {each.bytes_behind} bytes behind" for each in topology.replicas
    )
    if any(each.state != "online" or each.bytes_behind > _FAR_BEHIND for each in topology.replicas):
        return Finding(
            "replicas",
            "warn",
            value,
            "Let them catch up: what a replica has not received is lost when it is promoted.",
        )
    return Finding("replicas", "ok", value)


def _shards(topology: Topology) -> Finding:
    served = sum(each.slots for each in topology.shards if each.is_reachable)
    value = f"{served} of {SLOTS} slots are served: " + ", ".join(
        f"{each.primary} {'ok' if each.is_reachable else 'does not reply'}, replicas: {each.replicas}"
        for each in topology.shards
    )
    if served < SLOTS:
        return Finding(
            "shards", "problem", value, "Start what is missing: locks in these slots cannot be granted."
        )
    if not all(each.replicas for each in topology.shards):
        return Finding(
            "shards", "warn", value, "Add a replica for each primary: nothing can take over from one without."
        )
    return Finding("shards", "ok", value)


def _survives_as_cluster(topology: Topology) -> list[Finding]:
    followed = [each for each in topology.shards if each.replicas]
    lost = "the loss of a primary that has a replica, for its slots after cluster-node-timeout and about a second"
    return _survives(
        topology,
        [lost] if followed else [],
        [
            "the last grants before the loss of a primary: the new one may give these locks to others, so compare fences",
            f"the loss of {len(topology.shards) // 2 + 1} of {len(topology.shards)} primaries at once",
        ],
    )


def _clocks(topology: Topology) -> Finding:
    clocks = {"primary": topology.primary_clock, **{each.address: each.clock for each in topology.replicas}}
    if topology.shards:
        clocks = {each.primary: each.clock for each in topology.shards}
    known = {name: clock for name, clock in clocks.items() if clock is not None}
    shown = ", ".join(f"{name} {_shown(clock)}" for name, clock in clocks.items())
    if len(known) < len(clocks):
        return Finding(
            "clocks", "warn", shown, "Allow this user TIME on every server, and this machine to reach them."
        )
    apart = max(0.0, _apart(list(known.values())))
    value = f"{shown}; {apart:.3f} s apart"
    advice = (
        "Let NTP set all of them: the fences of a promoted server are smaller than those before, if its clock is "
        "behind by more than the fail-over took and it lacks the last grants."
    )
    if apart >= max(_FAR_APART, _down_after(topology)):
        return Finding("clocks", "problem", value, advice)
    return Finding(
        "clocks", "warn" if apart >= _FAR_APART else "ok", value, None if apart < _FAR_APART else advice
    )


def _survives_with_sentinels(topology: Topology) -> list[Finding]:
    sentinels, alive = len(topology.sentinels), _alive(topology)
    if not topology.replicas or not any(each.has_quorum for each in alive):
        return _survives(
            topology, [], ["the loss of the primary: no replica can be promoted, see above"], "warn"
        )
    quorum = max(each.quorum for each in alive)
    spare = max(0, len(alive) - max(quorum, sentinels // 2 + 1))
    takes = _down_after(topology) + _FAIL_OVER
    retry = 2 * max(each.failover_timeout for each in alive)
    lost = f"the loss of the primary, after about {takes:.0f} s (and {retry:.0f} s for each vote that fails)"
    return _survives(
        topology,
        [lost, *([f"the loss of {_some(spare, 'sentinel')}"] if spare else [])],
        [
            "the last grants before the loss of the primary: the new one may give these locks to others, so compare fences",
            f"the loss of the primary and {_some(spare + 1, 'sentinel')}",
        ],
    )


def _survives_with_replicas(topology: Topology) -> list[Finding]:
    return _survives(
        topology,
        [],
        ["the loss of the primary, until a replica is promoted and this URL leads to it"],
        "warn",
        "Name the sentinels in a redis+sentinel:// URL, unless your platform moves this address.",
    )


def _survives(
    topology: Topology, what: list[str], not_this: list[str], status: Status = "ok", advice: str | None = None
) -> list[Finding]:
    if topology.keeps_data:
        restart = "a restart of the server, with its holders"
    else:
        restart = "a restart of the server, without its holders (fences still grow)"
    return [
        Finding("survives", "ok", "; ".join([*what, restart])),
        Finding("does not", status, "; ".join(not_this), advice),
    ]


def _alive(topology: Topology) -> list[Sentinel]:
    return [each for each in topology.sentinels if each.failure is None]


def _down_after(topology: Topology) -> float:
    return max((each.down_after for each in _alive(topology)), default=0.0)


def _apart(clocks: list[ClockReading]) -> float:
    """The difference that is certain between the two that differ most."""
    return max(one.ahead - one.error - (other.ahead + other.error) for one in clocks for other in clocks)


def _shown(clock: ClockReading | None) -> str:
    return "unknown" if clock is None else f"{clock.ahead:+.3f} s (± {clock.error:.3f})"


def _some(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"
