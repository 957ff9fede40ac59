"""The transport to a cluster: one transport to each primary, and the map that says which of them keeps a lock."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from leasehold.core.background import BackgroundLoop, report_unexpected
from leasehold.core.validation import client_closed
from leasehold.errors import LeaseholdError, StoreError, StoreRefused, StoreUnavailable
from leasehold.valkey.transport import error_mapping
from leasehold.valkey.transport.cluster.scan import scan
from leasehold.valkey.transport.cluster.slot_map import ClusterNodes, SlotMapReader, check_state
from leasehold.valkey.transport.cluster.slots import SLOTS, slot_of
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF, Transport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Self

    from leasehold.core.ports import Clock, Concurrency
    from leasehold.valkey.commands import Command
    from leasehold.valkey.options import Options
    from leasehold.valkey.transport.cluster.slot_map import SlotRange
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.handshake import ServerFacts
    from leasehold.valkey.transport.protocols import Call, Connection, PubSubTransport, Reply, Word

# As many as the commands that are packed once and reused.
_CACHED_SLOTS = 16384
# The first redirections are followed at once. After that a slot is being moved, and a server needs time for that.
_AT_ONCE = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.05


# While many slots are being moved, each of which is corrected by itself.
_READ_AGAIN_AFTER = 0.25


class Node(Transport, Protocol):
    """The transport to one primary."""

    @property
    def facts(self) -> ServerFacts | None:
        """What is known about it; None before the first connection."""
        ...


N = TypeVar("N", bound=Node)


class _Attempt:
    """One attempt to read the map: when it has ended, and why it failed."""

    def __init__(self, concurrency: Concurrency) -> None:
        self.ended = concurrency.signal()
        self.failure: StoreError | None = None


class ClusterTransport(Generic[N]):
    """Implements `leasehold.valkey.transport.protocols.PubSubTransport` and `Connection` over a transport to each primary.

    A command on a lock goes to the primary that keeps it. Any other goes to one node, any of them, whose transport also
    receives the notifications: what is published on one node is heard on all.
    """

    keeps_order = False
    finds_primary = True
    sentinels = ()
    floor = None
    may_ask_twice = False
    deletes_if_equal = False

    def __init__(
        self,
        options: Options,
        nodes: ClusterNodes,
        make_node: Callable[[Options], N],
        *,
        clock: Clock,
        fraction: Callable[[], float],
        concurrency: Concurrency,
    ) -> None:
        self.min_replicas = options.min_replicas
        self._options = options
        self._make_node = make_node
        self._clock = clock
        self._fraction = fraction
        self._concurrency = concurrency
        self._reader = SlotMapReader(nodes, options.timeout, clock.now)
        self.server_clock = self._reader.server_clock
        self._nodes: dict[Endpoint, N] = {}
        self._retired: set[N] = set()
        self._primaries: tuple[Endpoint, ...] = ()
        self._owners: list[N | None] = [None] * SLOTS
        self._slots: dict[str, int] = {}
        self._routes: dict[str, N] = {}
        """The nodes that keep these locks, by the present map."""
        self._now = clock.now
        self._picks = itertools.count(int(fraction() * SLOTS))
        self._picked: Endpoint | None = None
        # Nothing is granted there.
        listening = replace(nodes, seeds=tuple(replace(each, min_replicas=0) for each in nodes.seeds))
        self._any_node = make_node(replace(options, server=listening, find=self._pick))
        self._is_closed = False
        self._reset()

    def _reset(self) -> None:
        self.connection: Self | None = None
        # Nodes without a connection: the map may have changed.
        self._lost: set[N] = set()
        self._wanted = self._concurrency.signal()
        self._stopped = self._concurrency.signal()
        self._attempt = _Attempt(self._concurrency)
        self._loop = BackgroundLoop(self._concurrency, self._keep_map)

    @property
    def server(self) -> Endpoint | None:
        """See `Transport`."""
        return self._options.login

    async def ask_other(self, server: Endpoint, commands: Sequence[tuple[Word, ...]]) -> Sequence[Reply]:
        """See `Transport`."""
        return await self._any_node.ask_other(server, commands)

    @property
    def channel(self) -> str:
        """See `Transport`."""
        return self._any_node.channel

    def listen(self, handle: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        """See `Transport`."""
        self._any_node.listen(handle, on_gap)

    async def subscribe(
        self, channel: str, handle: Callable[[bytes], None], on_resumed: Callable[[], None]
    ) -> bool:
        """See `PubSubTransport`."""
        await self.get_connection()
        return await cast("PubSubTransport", self._any_node).subscribe(channel, handle, on_resumed)

    async def get_connection(self, name: str | None = None) -> Connection:
        """This transport as the connection to all primaries; with ``name`` the connection to the one that keeps it."""
        if self._is_closed:
            raise client_closed()
        if self.connection is None:
            attempt = self._attempt
            self._want_map()
            ended = await attempt.ended.wait(self._options.connect_timeout)
            if attempt.failure is not None:
                raise error_mapping.copy_of(attempt.failure)
            if not ended:
                silence = StoreUnavailable(f"no reply within {self._options.connect_timeout:g} s")
                raise silence if self._picked is None else _unreachable(self._picked, silence)
        return self if name is None else await self._connect(name)

    def is_one_step(self, names: Sequence[str]) -> bool:
        """Whether all of these are in one slot."""
        return len({self._slot_of(name) for name in names}) == 1

    def part_of(self, name: str) -> object:
        """The node that keeps the lock."""
        return self._owners[self._slot_of(name)]

    def reset(self) -> None:
        """Read the map again."""
        self._want_map()

    async def close(self) -> None:
        """Close the connections to all nodes."""
        self._is_closed = True
        self._stopped.set()
        self._wanted.set()
        try:
            for node in (*tuple(self._nodes.values()), *tuple(self._retired)):
                await node.close()
        finally:
            await self._any_node.close()

    def after_fork(self) -> None:
        """In a child process: drop the parent's connections without sending anything on them."""
        for node in (*self._nodes.values(), *self._retired, self._any_node):
            node.after_fork()
        self._reset()

    # As a connection

    def now_ms(self) -> int:
        """The clock of some node, approximately."""
        return int((self.server_clock.offset + self._now()) * 1000)

    def run(self, command: Command, name: str, arguments: tuple[Word, ...]) -> Awaitable[Reply]:
        """The reply to one command on a lock, from the node that keeps it."""
        # Every lock passes here twice.
        node = self._routes.get(name)
        if node is not None and (connection := node.connection) is not None:
            return connection.run(command, name, arguments)
        return self._run(command, name, arguments)

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many commands on locks, sent to each node in one piece. Every error is among them."""
        return await self.run_on(calls, {})

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command.

        PING is for all primaries, SCAN goes through all of them, and for everything else one node is as good as
        another.
        """
        match words:
            case ["PING"]:
                return await self._ping()
            case ["SCAN", cursor, *options]:
                return await scan(self, cursor, options)
            case _:
                connection = self._any_node.connection or await self._any_node.get_connection()
                return await connection.call(*words)

    # Redirections

    async def redirect(self, calls: Sequence[Call], replies: Sequence[Reply], elapsed: float) -> Connection:
        """The connection on which to repeat ``calls`` after ``replies`` that redirect them; pauses if it is too early."""
        asking: dict[str, N] = {}
        must_pause = elapsed > _AT_ONCE
        for call, reply in zip(calls, replies, strict=True):
            match str(reply).split():
                case ["MOVED", slot, address]:
                    self._owners[int(slot)] = self.node_at(self.find(address))
                    self._routes = {}
                    self._want_map()
                case ["ASK", _, address]:
                    asking[call.name] = self.node_at(self.find(address))
                case _:
                    must_pause = True  # TRYAGAIN: only some of the keys have been moved
        if elapsed >= self._options.timeout:
            slots = sorted({self._slot_of(call.name) for call in calls})
            which = f"slot {slots[0]} is" if len(slots) == 1 else f"slots {', '.join(map(str, slots))} are"
            raise StoreRefused(f"{which} being moved to another node of the cluster; nothing was done")
        if must_pause:
            pause = _FIRST_PAUSE + (_LONGEST_PAUSE - _FIRST_PAUSE) * self._fraction()
            await self._clock.sleep(pause)
        return cast("Connection", _Asking(self, asking)) if asking else self

    async def run_on(self, calls: Sequence[Call], asking: Mapping[str, N]) -> list[Reply]:
        """As `run_many`, but locks in ``asking`` are asked for at the node to which they are being moved."""
        replies: list[Reply] = [None] * len(calls)
        groups: defaultdict[tuple[N | None, bool], list[int]] = defaultdict(list)
        for index, call in enumerate(calls):
            is_asking = call.name in asking
            node = asking[call.name] if is_asking else self._owners[self._slot_of(call.name)]
            groups[node, is_asking].append(index)
        works = [
            self._run_group([calls[index] for index in indexes], node if is_asking else None)
            for (node, is_asking), indexes in groups.items()
        ]
        found = [await works[0]] if len(works) == 1 else await self._concurrency.gather(works)
        for indexes, group in zip(groups.values(), found, strict=True):
            for index, reply in zip(indexes, group, strict=True):
                replies[index] = reply
        return replies

    async def _run_group(self, calls: Sequence[Call], target: N | None) -> Sequence[Reply]:
        """The replies of one node: of the one that keeps these locks, or of the ``target`` to which they are moved."""
        try:
            if target is None:
                node = self._owners[self._slot_of(calls[0].name)]
                try:
                    return await (await self._connect(calls[0].name)).run_many(calls)
                except StoreUnavailable:
                    self._report_lost(node)
                    raise
            # In one piece, so that each is asked for directly after its permission.
            pairs = [each for call in calls for each in (call._replace(command=_ASKING, arguments=()), call)]
            return (await (await target.get_connection()).run_many(pairs))[1::2]
        except StoreError as error:
            return [error] * len(calls)

    # The nodes

    @property
    def primaries(self) -> Sequence[Endpoint]:
        """The primaries that have slots."""
        return self._primaries

    def owner_of(self, slot: int) -> Endpoint | None:
        """The primary that keeps the slot."""
        owner = self._owners[slot]
        return next((endpoint for endpoint, node in list(self._nodes.items()) if node is owner), None)

    def find(self, address: str) -> Endpoint:
        """The node at an address that the cluster announces."""
        return self._reader.find(address)

    def node_at(self, endpoint: Endpoint) -> N:
        """The transport to a node, which must be a primary."""
        node = self._nodes.get(endpoint)
        # One atomic step: threads may find the same node at the same time.
        return node or self._nodes.setdefault(
            endpoint, self._make_node(replace(self._options, server=replace(endpoint, in_cluster=True)))
        )

    def _slot_of(self, name: str) -> int:
        slot = self._slots.get(name)
        if slot is None:
            if len(self._slots) >= _CACHED_SLOTS:
                self._slots.clear()
            self._slots[name] = slot = slot_of(name)
        return slot

    async def _run(self, command: Command, name: str, arguments: tuple[Word, ...]) -> Reply:
        # The routes before the map: if that changes in between, the routes that are written to are those of before.
        routes = self._routes
        node = self._owners[self._slot_of(name)]
        if node is not None:
            if len(routes) >= _CACHED_SLOTS:
                routes.clear()
            routes[name] = node
        connection = await self._connect(name)
        try:
            return await connection.run(command, name, arguments)
        except StoreUnavailable:
            self._report_lost(node)
            raise

    async def _connect(self, name: str) -> Connection:
        """A connection to the node that keeps the lock, also if that changes while it connects."""
        slot = self._slot_of(name)
        while True:
            node = self._owners[slot]
            if node is None:
                self._want_map()
                raise StoreUnavailable(f"no node of the cluster serves slot {slot} now")
            if node.connection is not None:
                return node.connection
            if node.keeps_order and node.facts is not None:
                # Its connection was lost. A pool has none to lose; that its server is gone shows in the next exchange.
                self._report_lost(node)
            is_new = node.facts is None
            try:
                connection = await node.get_connection()
            except LeaseholdError:
                if self._is_closed or self._owners[slot] is node:
                    self._report_lost(node)
                    raise
            else:
                if is_new:
                    self._compare_facts()
                return connection

    def _compare_facts(self) -> None:
        facts = [self.node_at(each).facts for each in self._primaries]
        self.deletes_if_equal = all(each is not None and each.deletes_if_equal for each in facts)

    async def _ping(self) -> Reply:
        """As PING, of every primary: each has to reply that the whole cluster works."""
        if None in self._owners:
            self._want_map()
            raise StoreUnavailable(f"no node of the cluster serves slot {self._owners.index(None)} now")
        nodes = [(each, self.node_at(each)) for each in self._primaries]
        failures = await self._concurrency.gather([self._check(*each) for each in nodes])
        for failure in failures:
            if failure is not None:
                raise failure
        self._compare_facts()
        return b"PONG"

    async def _check(self, endpoint: Endpoint, node: N) -> StoreError | None:
        is_known = node.facts is not None
        try:
            info = await (await node.get_connection()).call("CLUSTER", "INFO")
            check_state(endpoint, info, is_complete=True)
        except StoreError as error:
            self._report_lost(node)
            return error if is_known else _unreachable(endpoint, error)
        except LeaseholdError as error:  # closed, because it is no primary any more
            return StoreUnavailable(str(error))
        return None

    # The map

    def _want_map(self) -> None:
        self._wanted.set()
        self._loop.start()

    def _report_lost(self, node: N | None) -> None:
        if node is not None:
            self._lost.add(node)
        self._want_map()

    def _pick(self) -> Endpoint:
        """A primary to listen at, another one each time. Clients begin at different ones."""
        self._picked = self._primaries[next(self._picks) % len(self._primaries)]
        return replace(self._picked, in_cluster=True, min_replicas=0)

    async def _keep_map(self) -> None:
        """Read the map whenever that is wanted, and while a node is lost, until closed."""
        tries = 0
        while not self._is_closed:
            await self._wanted.wait()
            self._wanted.clear()
            attempt, tries = self._attempt, tries + 1
            try:
                self._apply(await self._concurrency.run_blocking(self._reader.read))
                if self.connection is None:
                    # From here on a notification cannot be missed without a gap being reported.
                    await self._connect_any_node()
                    self.connection = self
            except Exception as error:  # noqa: BLE001 - no error may end the loop
                report_unexpected(error, "while reading the map of a cluster")
                attempt.failure = error if isinstance(error, StoreError) else StoreUnavailable(str(error))
                if not isinstance(error, StoreRefused):
                    self._wanted.set()
            else:
                attempt.failure = None
                tries = tries if self._lost else 0
            if self._lost:
                self._wanted.set()
            if attempt.failure is None or isinstance(attempt.failure, StoreRefused):
                self._attempt = _Attempt(self._concurrency)
                attempt.ended.set()
            pause = RECONNECT_BACKOFF.pause(tries, self._fraction()) if tries else _READ_AGAIN_AFTER
            await self._stopped.wait(pause)

    async def _connect_any_node(self) -> None:
        try:
            await (await self._any_node.get_connection()).call("PING")
        except StoreUnavailable as error:
            raise error if self._picked is None else _unreachable(self._picked, error) from error

    def _apply(self, ranges: Sequence[SlotRange]) -> None:
        owners: list[N | None] = [None] * SLOTS
        for first, last, primary in ranges:
            owners[first : last + 1] = [self.node_at(primary)] * (last - first + 1)
        before = self._primaries
        self._primaries = tuple(dict.fromkeys(primary for _, _, primary in ranges))
        # In this order, see `_run`.
        self._owners = owners
        self._routes = {}
        for endpoint in before:
            if endpoint not in self._primaries and (node := self._nodes.pop(endpoint, None)) is not None:
                self._retired.add(node)
                self._concurrency.spawn(self._retire(node))
        self._lost = {
            node
            for node in tuple(self._lost)
            if node in owners and node.keeps_order and node.connection is None
        }
        self._compare_facts()
        if self._picked is not None and self._picked not in self._primaries:
            self._any_node.reset()

    async def _retire(self, node: N) -> None:
        """Close the transport to a node that is no primary any more, once it has replied."""
        if node.connection is not None:
            await self._clock.sleep(self._options.timeout)
        await node.close()
        self._retired.discard(node)


class _Asking(Generic[N]):
    """Repeats calls, some of which are to be asked for at the node to which their slot is being moved."""

    def __init__(self, cluster: ClusterTransport[N], asking: Mapping[str, N]) -> None:
        self._cluster = cluster
        self._asking = asking

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        return await self._cluster.run_on(calls, self._asking)


class _AskingCommand:
    """The permission to do the next command on this connection although the slot has not been moved completely."""

    effect = "other"

    def pack(self, _name: str, _arguments: tuple[Any, ...]) -> bytes:
        return b"*1\r\n$6\r\nASKING\r\n"


_ASKING = cast("Command", _AskingCommand())


def _unreachable(endpoint: Endpoint, error: StoreError) -> StoreError:
    """The error for a primary to which there has never been a connection."""
    unreachable = type(error)(
        f"{endpoint}, which the cluster announces: {error}. If this node is reached at another address from here, name "
        "both in the address_map of the store URL"
    )
    unreachable.__cause__ = error
    return unreachable


def over_cluster(
    options: Options,
    make_transport: Callable[[Options], N],
    *,
    clock: Clock,
    fraction: Callable[[], float],
    concurrency: Concurrency,
) -> N:
    """The transport to the server of these options, or one of each primary if they name a cluster."""
    if not isinstance(options.server, ClusterNodes):
        return make_transport(options)
    cluster = ClusterTransport(
        options, options.server, make_transport, clock=clock, fraction=fraction, concurrency=concurrency
    )
    return cast("N", cluster)
