"""Every operation of the OpenAPI document × every kind of caller × every place of its object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
import pytest_asyncio
from tests.server.conftest import QUICK, client_of
from tests.server.matrix import CALLERS, RULES, Operation, operations_of, refusal, works
from tests.server.matrix_world import ALL_CANARIES, World, canaries_kept_from
from tests.server.team import problem

from leasehold.server import Settings, create_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import httpx
    from tests.conftest import Servers

# One application for all: starting one takes longer than all the requests.
pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_FOR_ANYBODY = [operation_id for operation_id, rule in RULES.items() if rule.needs != "anybody"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On SQLite; and on PostgreSQL with the full counts."""
    if "empty_database" in metafunc.fixturenames:
        kinds = ["sqlite", "postgresql"] if metafunc.config.getoption("--full") else ["sqlite"]
        metafunc.parametrize("empty_database", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def empty_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('matrix')}/documents.sqlite"
    postgres = request.getfixturevalue("postgres")
    name = f"matrix_{uuid4().hex}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    return f"postgresql://postgres@127.0.0.1:{postgres.port}/{name}"


@pytest.fixture(scope="module")
def matrix_settings(
    empty_database: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    where: dict[str, Any] = {"database_url": empty_database, "store_url": servers.empty("valkey9").url}
    # No lock may expire during a comparison.
    return Settings(**QUICK, **where, data_dir=tmp_path_factory.mktemp("data"), document_ttl=3600)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(matrix_settings: Settings, servers: Servers) -> AsyncIterator[World]:
    app = create_app(matrix_settings)
    async with app.router.lifespan_context(app), client_of(app) as http:
        with servers["valkey9"].admin() as store:
            made = World(app.state.services, http, store)
            await made.populate()
            yield made


@pytest.fixture(scope="module")
def operations(matrix_settings: Settings) -> dict[str, Operation]:
    return operations_of(create_app(matrix_settings).openapi())


async def test_every_operation_has_its_rule_and_every_rule_its_operation(
    operations: dict[str, Operation],
) -> None:
    assert sorted(operations) == sorted(RULES)


@pytest.mark.parametrize("operation_id", NOT_FOR_ANYBODY)
async def test_a_caller_without_permission_is_refused_and_nothing_changes(
    operation_id: str, operations: dict[str, Operation], world: World
) -> None:
    """While another user edits every document: the refused callers send the right fence and tab."""
    operation, rule = operations[operation_id], RULES[operation_id]
    await world.clear()
    things = await world.make_objects()
    fences = await world.hold_all(things)
    everybody = await world.sign_in_all()
    before = await world.look()
    wrong: list[str] = []
    for target in operation.targets():
        for caller in CALLERS:
            expected = refusal(rule, caller, target)
            if expected is None:
                continue
            credentials, fence = everybody[caller], fences.get(target.place, "1")
            answer = await world.ask(
                operation, rule, target, things=things, credentials=credentials, fence=fence
            )
            wrong += [f"{target}, {caller}: {each}" for each in _unless_refused(answer, expected)]
        after = await world.look()
        wrong += [f"{target}, one of them: {each}" for each in _changes(before, after)]
        before = after
    assert not wrong, "\n".join([operation_id, *wrong])


@pytest.mark.parametrize("operation_id", RULES)
async def test_a_caller_with_permission_is_served(
    operation_id: str, operations: dict[str, Operation], world: World
) -> None:
    """A read returns no data of others, and changes nothing. A write changes only objects that the caller may change."""
    operation, rule = operations[operation_id], RULES[operation_id]
    await world.clear()
    things = await world.make_objects()
    await world.hold_all(things)
    everybody = await world.sign_in_all()
    before = await world.look()
    wrong: list[str] = []
    cells = [(target, caller) for target in operation.targets() for caller in CALLERS]
    for target, caller in cells:
        if refusal(rule, caller, target) is not None:
            continue
        credentials, fence = everybody[caller], "1"
        if not operation.is_safe:
            things, credentials = await world.make_objects(), await world.sign_in(caller)
            fence = await world.hold(things[target.place].document_id, caller) if rule.holds else "1"
        answer = await world.ask(operation, rule, target, things=things, credentials=credentials, fence=fence)
        if works(rule, caller, target):
            complaints = _unless_served(answer, caller)
        else:
            complaints = [
                *_unless_problem(answer, rule.otherwise),
                *_read(answer, canaries_kept_from(caller)),
            ]
        wrong += [f"{target}, {caller}: {complaint}" for complaint in complaints]
    if operation.is_safe:
        wrong += _changes(before, await world.look())
    assert not wrong, "\n".join([operation_id, *wrong])


async def test_a_caller_without_a_login_gets_401_for_any_request(
    operations: dict[str, Operation], world: World
) -> None:
    for operation_id in NOT_FOR_ANYBODY:
        answer = await world.send_nonsense(operations[operation_id])
        assert problem(answer) == (401, "not_signed_in"), operation_id


def _unless_served(answer: httpx.Response, caller: str) -> list[str]:
    complaints = _read(answer, canaries_kept_from(caller))
    return complaints if answer.is_success else [f"got {answer.status_code} {answer.text}", *complaints]


def _unless_refused(answer: httpx.Response, expected: tuple[int, str]) -> list[str]:
    complaints = [*_unless_problem(answer, expected), *_read(answer, ALL_CANARIES)]
    if expected[0] == 401 and answer.headers.get("www-authenticate") != "Bearer":
        complaints.append("has no WWW-Authenticate header")
    return complaints


def _unless_problem(answer: httpx.Response, expected: tuple[int, str]) -> list[str]:
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    is_right = is_problem and problem(answer) == expected
    return [] if is_right else [f"got {answer.status_code} {answer.text}, not {expected}"]


def _changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    keys = sorted(before.keys() | after.keys())
    return [f"changed {key}" for key in keys if before.get(key) != after.get(key)]


def _read(answer: httpx.Response, words: Iterable[str]) -> list[str]:
    said = f"{answer.text} {answer.headers}"
    return [f"read {word}" for word in words if word in said]
