"""What every test can ask for. `--full` runs the full counts that issues name."""

from __future__ import annotations

import gc
import signal
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.support import hangs, leaks, shared_services
from tests.support.clusters import Cluster
from tests.support.postgres import PostgresAddress
from tests.support.processes import Child
from tests.support.proxy import FaultProxy
from tests.support.servers import FLAVOURS, SERVERS, Server
from tests.support.tls import Certificates, TlsFront, make_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.server.served import Served, SharedService
    from tests.support.pages import Example


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the full counts (long)")
    hangs.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    _undo_ignored_signals()
    hangs.install(config)
    leaks.install(config)
    shared_services.install(config)


def _undo_ignored_signals() -> None:
    """Let the run pass as a background job, where SIGINT is ignored, and under nohup, where SIGHUP is.

    Child processes inherit an ignored signal, but not a handler. The handler of SIGHUP does nothing, as under nohup.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collection: a full collection would visit all of them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> pytest.TestReport:
    """As pytest does, but twice if Python could not parse the source of a failed test; otherwise the whole run would end.

    Up to Python 3.11.7 `ast.parse` raises `SystemError` if another thread parses at the same time, as the shared
    application does when it logs a traceback.
    """
    try:
        return pytest.TestReport.from_item_and_call(item, call)
    except SystemError:
        return pytest.TestReport.from_item_and_call(item, call)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    versions = (f"{name} {'.'.join(map(str, FLAVOURS[name].version))}" for name in SERVERS)
    left_out = "" if "redis7" in SERVERS else "; Redis 7 takes part in make test-all"
    terminalreporter.line(f"Servers of this run: {', '.join(versions)}{left_out}")


class Count(Protocol):
    def __call__(self, full: int, quick: int) -> int: ...


class Servers:
    """The session's servers by flavour, started when first asked for. Not to be killed: see `own_server`."""

    def __init__(self) -> None:
        self._running: dict[str, Server] = {}
        self._used_by: dict[str, str] = {}

    def __getitem__(self, name: str) -> Server:
        if name not in self._running:
            self._running[name] = Server(name)
        return self._running[name].start()

    def empty(self, name: str) -> Server:
        """The flavour's server without any data."""
        server = self[name]
        server.resume()
        with server.admin(single_connection_client=True) as client:
            if left := leaks.keys_without_expiry(client):
                last_user = self._used_by.get(name, "no test")
                leaks.note_leak(f"keys that never expire, of {last_user}: {', '.join(left[:5])}")
            client.flushall()
        self._used_by[name] = leaks.current_test()
        return server

    def close(self) -> None:
        for name, server in self._running.items():
            self.empty(name)
            server.close()


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the full counts are wanted."""
    return bool(request.config.getoption("--full"))


@pytest.fixture(scope="session")
def count(full: bool) -> Count:
    """`count(full=10_000, quick=1_000)`: how often to do a thing in this run."""

    def choose(full: int, quick: int) -> int:
        return full if wanted else quick

    wanted = full
    return choose


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Iterator[Example]:
    """The example of a page that the test runs, see `Page.runs`."""
    example = replace(request.param, has_run=False)
    yield example
    assert example.has_run, f"{example.where} was not run"


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """`servers["redis62"]`: one running server per flavour for the whole session."""
    all_servers = Servers()
    yield all_servers
    all_servers.close()


class Clusters:
    """The session's clusters by flavour, started when first asked for. Slots may be moved, nodes must not be killed."""

    def __init__(self) -> None:
        self._running: dict[str, Cluster] = {}
        self._used_by: dict[str, str] = {}

    def empty(self, name: str) -> Cluster:
        """The flavour's cluster without any data."""
        cluster = self._running.get(name)
        if cluster is None:
            cluster = self._running[name] = Cluster(name).__enter__()
        cluster.end_moves()
        for node in cluster.nodes:
            with node.admin(single_connection_client=True) as client:
                if left := leaks.keys_without_expiry(client):
                    last_user = self._used_by.get(name, "no test")
                    leaks.note_leak(f"keys that never expire, of {last_user}: {', '.join(left[:5])}")
                client.flushall()
        self._used_by[name] = leaks.current_test()
        return cluster

    def close(self) -> None:
        for name, cluster in self._running.items():
            self.empty(name)
            cluster.__exit__()


@pytest.fixture(scope="session")
def clusters() -> Iterator[Clusters]:
    """`clusters.empty("redis62")`: one running cluster per flavour for the whole session."""
    all_clusters = Clusters()
    yield all_clusters
    all_clusters.close()


@pytest.fixture
def cluster(clusters: Clusters) -> Cluster:
    """The session's cluster of Valkey 9, emptied."""
    return clusters.empty("valkey9")


@pytest.fixture
def valkey(servers: Servers) -> Server:
    """The session's Valkey 9, emptied."""
    return servers.empty("valkey9")


@pytest.fixture(scope="session")
def service_store() -> Iterator[Server]:
    """A Valkey 9 for what tests share: unlike `valkey` it is never emptied."""
    with Server("valkey9") as server:
        yield server


@pytest.fixture(scope="session")
def shared_service(
    service_store: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedService]:
    """Behind `service`; started when first asked for."""
    from tests.server.served import SharedService

    shared = SharedService(tmp_path_factory.mktemp("service"), service_store.url)
    yield shared
    shared.close()


@pytest.fixture
def service(shared_service: SharedService) -> Served:
    """A running `leasehold serve` with two workers, shared by the tests of this process."""
    return shared_service.running()


@pytest.fixture(scope="session")
def postgres() -> PostgresAddress:
    """The run's PostgreSQL, which all workers share. It must be there: `make system`."""
    return PostgresAddress(shared_services.port_of("postgres"))


@pytest.fixture(params=SERVERS)
def any_server(request: pytest.FixtureRequest, servers: Servers) -> Server:
    """The session's server of each flavour in turn, emptied."""
    return servers.empty(request.param)


@pytest.fixture
def own_server() -> Iterator[Callable[..., Server]]:
    """`own_server("valkey9", appendonly=True)`: a started server of the test's own, to kill and restart."""
    with ExitStack() as made:

        def make(flavour: str = "valkey9", **options: Any) -> Server:
            return made.enter_context(Server(flavour, **options))

        yield make


@pytest.fixture
def proxy() -> Iterator[Callable[[Server | int], FaultProxy]]:
    """`proxy(server)`: a fault-injecting proxy in front of a server or port."""
    with ExitStack() as made:

        def make(target: Server | int) -> FaultProxy:
            return made.enter_context(FaultProxy(target.port if isinstance(target, Server) else target))

        yield make


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A CA with a server's and a client's certificate."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def tls_front(certificates: Certificates) -> Iterator[Callable[..., TlsFront]]:
    """`tls_front(server, require_client=False)`: TLS in front of a server, proxy or port."""
    with ExitStack() as made:

        def make(target: Server | FaultProxy | int, *, require_client: bool = False) -> TlsFront:
            port = target if isinstance(target, int) else target.port
            return made.enter_context(TlsFront(port, certificates, require_client=require_client))

        yield make


@pytest.fixture
def spawn() -> Iterator[Callable[..., Child]]:
    """`spawn(function_or_code, *args)`: Python in a child process, ended with the test."""
    with ExitStack() as made:

        def make(code: str | Callable[..., Any], *args: Any) -> Child:
            return made.enter_context(Child.spawn(code, *args))

        yield make
