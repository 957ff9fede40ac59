"""The FastAPI dependency, over real requests and a real server."""

import asyncio
import subprocess
import sys
import threading
from typing import Annotated, Any
from uuid import UUID

import httpx
import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, Path
from fastapi.responses import StreamingResponse
from tests.support.eventually import LIMIT, eventually, eventually_async

import leasehold
from leasehold import InvalidRequest, Lease, errors, http_problems
from leasehold.operations import Operations, Purpose, Purposes
from leasehold.operations.fastapi import held, install_problems

PURPOSES = Purposes(
    [
        Purpose("deal", "deal:{deal_id}", ttl=30, wait=0),
        Purpose("slow", "slow:{deal_id}", ttl=30, wait=0.1),
        Purpose("transfer", "transfer:{source}:{target}", ttl=30, wait=0),
        Purpose("nightly", "nightly", ttl=30, wait=0),
    ]
)
NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture
def ops(locks) -> Operations:
    return Operations(locks, PURPOSES)


def client_of(app: FastAPI, *, raises: bool = True) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=raises)
    return httpx.AsyncClient(transport=transport, base_url="http://test", timeout=LIMIT)


def service(ops: Operations, *, with_problems: bool = True) -> FastAPI:
    """An application with an endpoint of each kind."""
    app = FastAPI()
    app.state.ran = []
    app.state.gate = asyncio.Event()
    if with_problems:
        install_problems(app)
    deal = held(ops, "deal", deal_id=int)

    @app.post("/deals/{deal_id}")
    async def work(deal_id: int, lease: Annotated[Lease, Depends(deal)]) -> dict[str, Any]:
        app.state.ran.append(deal_id)
        return {
            "name": lease.name,
            "fence": lease.fence,
            "held": (await ops.locks.inspect(lease.name)).is_held,
        }

    @app.post("/deals/{deal_id}/wait", dependencies=[Depends(deal)])
    async def wait(deal_id: int) -> None:
        app.state.ran.append(deal_id)
        await app.state.gate.wait()

    @app.post("/deals/{deal_id}/fail", dependencies=[Depends(deal)])
    async def fail(deal_id: int, how: str) -> None:
        if how == "http":
            raise HTTPException(418)
        raise RuntimeError(how)

    @app.post("/deals/{deal_id}/own")
    async def own(deal_id: int) -> None:
        async with ops.purpose("slow", deal_id=deal_id):
            app.state.ran.append(deal_id)

    return app


async def is_held(ops: Operations, name: str) -> bool:
    return (await ops.locks.inspect(name)).is_held


async def test_the_endpoint_runs_under_the_lock_and_releases_it(ops) -> None:
    async with client_of(service(ops)) as client:
        answer = await client.post("/deals/042")
        assert answer.status_code == 200
        assert answer.json()["name"] == "deal:42"  # the number, however it is spelled
        assert answer.json()["held"]
        assert not await is_held(ops, "deal:42")
        assert (await client.post("/deals/42")).json()["fence"] > answer.json()["fence"]


@pytest.mark.parametrize("path", ["/deals/7", "/deals/7/own"])
async def test_busy_is_409_and_the_endpoint_does_not_run(ops, path) -> None:
    app = service(ops)
    async with client_of(app) as client, ops.purpose("deal", deal_id=7), ops.purpose("slow", deal_id=7):
        answer = await client.post(path)
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    problem = answer.json()
    code = "acquire_timeout" if path.endswith("own") else "lock_busy"
    assert (problem["code"], problem["type"], problem["status"]) == (code, code, 409)
    assert not app.state.ran
    for secret in ("@", "token", ops.locks._engine.holder):
        assert str(secret) not in answer.text


async def test_without_the_handlers_busy_is_409_as_well(ops) -> None:
    app = service(ops, with_problems=False)
    async with client_of(app) as client, ops.purpose("deal", deal_id=7):
        answer = await client.post("/deals/7")
    assert (answer.status_code, answer.json()["detail"]["code"]) == (409, "lock_busy")
    assert "retry-after" in answer.headers
    assert not app.state.ran


async def test_an_unreachable_store_is_503_and_the_endpoint_does_not_run() -> None:
    locks = leasehold.connect(NOWHERE, timeout=0.2)
    app = service(Operations(locks, PURPOSES))
    async with client_of(app) as client:
        answer = await client.post("/deals/7")
    await locks.close()
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    assert "127.0.0.1" not in answer.text
    assert not app.state.ran


@pytest.mark.parametrize(("how", "status"), [("http", 418), ("crash", 500)])
async def test_the_lock_is_released_after_errors(ops, how, status) -> None:
    async with client_of(service(ops), raises=False) as client:
        assert (await client.post("/deals/7/fail", params={"how": how})).status_code == status
    assert not await is_held(ops, "deal:7")


async def test_a_client_that_disconnects_releases_the_lock(ops) -> None:
    app = service(ops)
    async with client_of(app) as client:
        request = asyncio.create_task(client.post("/deals/7/wait"))
        await eventually_async(lambda: app.state.ran)
        assert await is_held(ops, "deal:7")
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert not await is_held(ops, "deal:7")


async def test_a_lost_lease_stops_the_endpoint_and_is_503(ops) -> None:
    app = service(ops)
    async with client_of(app) as client:
        request = asyncio.create_task(client.post("/deals/7/wait"))
        await eventually_async(lambda: app.state.ran)
        taken = await ops.locks.take("deal:7")
        answer = await request
    assert (answer.status_code, answer.json()["code"]) == (503, "lease_lost")
    assert answer.headers["content-type"] == "application/problem+json"
    taken.check()


async def test_a_plain_endpoint_that_lost_its_lease_is_503_too(ops, valkey) -> None:
    app = FastAPI()
    install_problems(app)
    entered, gate = threading.Event(), threading.Event()

    @app.post("/deals/{deal_id}")
    def work(deal_id: int, lease: Annotated[Lease, Depends(held(ops, "deal", deal_id=int))]) -> str:
        entered.set()
        assert gate.wait(LIMIT)
        return "done"

    async with client_of(app) as client:
        request = asyncio.create_task(client.post("/deals/7"))
        await eventually_async(entered.is_set)
        await ops.locks.take("deal:7")
        gate.set()
        answer = await request
    assert (answer.status_code, answer.json()["code"]) == (503, "lease_lost")


async def test_the_lock_is_held_until_the_response_is_sent_or_as_the_scope_says(ops) -> None:
    app = FastAPI()

    async def look() -> Any:
        yield str(await is_held(ops, "nightly"))

    @app.get("/request", dependencies=[Depends(held(ops, "nightly"))])
    async def by_request() -> StreamingResponse:
        return StreamingResponse(look())

    @app.get("/function", dependencies=[Depends(held(ops, "nightly"), scope="function")])
    async def by_function() -> StreamingResponse:
        return StreamingResponse(look())

    async with client_of(app) as client:
        assert (await client.get("/request")).text == "True"
        assert (await client.get("/function")).text == "False"
    assert not await is_held(ops, "nightly")


async def test_finished_work_is_not_undone_by_an_unavailable_store(own_server, impatient) -> None:
    server = own_server("valkey9")
    ops = Operations(impatient(server, 2), PURPOSES)
    app = FastAPI()
    install_problems(app)
    ran = []

    @app.post("/", dependencies=[Depends(held(ops, "nightly"), scope="function")])
    async def work() -> str:
        ran.append(1)
        server.kill()
        return "done"

    async with client_of(app) as client:
        for _ in range(5):  # a store that stood still before the work was begun is another matter
            answer = await client.post("/")
            if ran:
                break
    assert (answer.status_code, answer.json()) == (200, "done")


async def test_parameters_come_from_path_query_and_dependencies(ops) -> None:
    app = FastAPI()

    def source(x_source: Annotated[str, Header()]) -> UUID:
        return UUID(x_source)

    transfer = held(ops, "transfer", source=source, target=Annotated[int, Path(alias="id")])

    @app.get("/to/{id}")
    async def work(lease: Annotated[Lease, Depends(transfer)]) -> str:
        return lease.name

    @app.get("/query")
    async def query(lease: Annotated[Lease, Depends(held(ops, "deal", deal_id=Depends(lambda q: q)))]) -> str:
        return lease.name

    one = "12345678-1234-5678-1234-567812345678"
    async with client_of(app) as client:
        assert (await client.get("/to/5", headers={"x-source": one.upper()})).json() == f"transfer:{one}:5"
        assert (await client.get("/to/five", headers={"x-source": one})).status_code == 422
        assert (await client.get("/query", params={"q": "a:b"})).json() == "deal:a%3Ab"
        refused = await client.get("/query", params={"q": " "})
        assert (refused.status_code, refused.json()["detail"]["code"]) == (422, "invalid_request")
    parameters = app.openapi()["paths"]["/to/{id}"]["get"]["parameters"]
    assert {each["name"] for each in parameters} == {"id", "x-source"}


@pytest.mark.parametrize(
    ("purpose", "parameters", "told"),
    [
        ("pay", {}, "no purpose 'pay'"),
        ("deal", {}, "deal_id is missing"),
        ("deal", {"deal_id": int, "user": int}, "user is unknown"),
        ("deal", {"deal_id": float}, "not float"),
        ("deal", {"deal_id": Annotated[bool, Path()]}, "not bool"),
        ("deal", {"deal_id": "deal_id"}, "must be a type"),
    ],
)
def test_a_wrong_declaration_is_refused_at_once(purpose, parameters, told) -> None:
    with pytest.raises(InvalidRequest, match=told):
        held(Operations(leasehold.connect(NOWHERE), PURPOSES), purpose, **parameters)


def every_error(kind: type = errors.LeaseholdError) -> set[type]:
    return {kind}.union(*(every_error(each) for each in kind.__subclasses__()))


def test_every_error_has_a_status() -> None:
    ours = {each for each in every_error() if each.__module__ == errors.__name__}
    assert set(http_problems.OF_ERROR) == ours


def test_a_missing_extra_is_named() -> None:
    code = """
import importlib, sys
import leasehold.operations
for module in ("fastapi", "faststream"):
    sys.modules[module] = None
    try:
        importlib.import_module(f"leasehold.operations.{module}")
    except ModuleNotFoundError as error:
        print(error)
    del sys.modules[module]
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = ran.stdout.splitlines()
    assert len(said) == 2, ran.stderr
    assert all("pip install 'leasehold[operations]'" in each for each in said)


def test_the_library_and_its_purposes_need_no_extra() -> None:
    code = """
import sys, leasehold, leasehold.operations, leasehold.operations.blocking
print([each for each in ("fastapi", "faststream", "sqlalchemy", "httpx", "pydantic") if each in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.fixture
def uvicorn_server(valkey):
    """The service in a real HTTP server, in a thread with a loop and a client of its own."""
    import uvicorn

    state: dict[str, Any] = {}

    async def serve() -> None:
        async with leasehold.connect(valkey.url, timeout=LIMIT) as locks:
            config = uvicorn.Config(
                service(Operations(locks, PURPOSES)), port=0, log_level="warning", lifespan="off", ws="none"
            )
            state["server"] = server = uvicorn.Server(config)
            await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    eventually(lambda: "server" in state and state["server"].started)
    yield f"http://127.0.0.1:{state['server'].servers[0].sockets[0].getsockname()[1]}"
    state["server"].should_exit = True
    thread.join(LIMIT)


async def test_over_real_http_one_request_holds_the_lock_and_the_others_get_409(uvicorn_server, ops) -> None:
    async with httpx.AsyncClient(base_url=uvicorn_server, timeout=LIMIT) as client:
        async with ops.purpose("deal", deal_id=9):
            answers = await asyncio.gather(*(client.post("/deals/9") for _ in range(5)))
            assert [each.status_code for each in answers] == [409] * 5
            assert all(each.headers["content-type"] == "application/problem+json" for each in answers)
        assert (await client.post("/deals/9")).status_code == 200
        # The response is sent before the release, so the lock may become free a moment later.
        await eventually_async(lambda: _is_free(ops))


async def _is_free(ops: Operations) -> bool:
    return not await is_held(ops, "deal:9")
