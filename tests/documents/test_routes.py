"""The routes in a host application: over real requests, with its own users and documents."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse
from tests.documents.test_locks_force_take import meet
from tests.documents.workers import TIMES, host
from tests.support.eventually import LIMIT

import leasehold
from leasehold.documents import Editor, Save, Times
from leasehold.documents.fastapi import install_problems, lock_router
from leasehold.documents.http.schemas import ExtendedLock, GrantedLock, Lock, LockHistory, TakenLock, Ticket

HOLDER = {"user_id": "ana", "user_name": "Ana"}


@pytest.fixture
async def worker(valkey):
    async with host(valkey.url) as made:
        yield await made.worker()


def problem(answer: httpx.Response, status: int, code: str) -> dict:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), (
        answer.text
    )
    body = answer.json()
    assert (body["type"], body["code"], body["status"]) == (code, code, status)
    assert body["title"]
    assert body["message"]
    return body


async def test_a_lock_is_read_acquired_read_and_released(worker) -> None:
    before = await worker.ask("vera", "GET", "/documents/doc/lock")
    assert Lock.model_validate(before.json()).locked is False
    granted = GrantedLock.model_validate((await worker.lock("ana", tab="one")).json())
    assert granted.lock_holder.tab_is_mine
    assert granted.fence == granted.version.fence
    assert granted.content_version == 0
    assert 0 < granted.expires_in <= TIMES.ttl
    seen = Lock.model_validate((await worker.ask("vera", "GET", "/documents/doc/lock")).json())
    assert (seen.lock_holder.user_name, seen.lock_holder.same_user) == ("Ana", False)
    released = Lock.model_validate((await worker.unlock("ana", tab="one")).json())
    assert not released.locked
    assert Lock.model_validate((await worker.unlock("ana", tab="one")).json()).version == released.version


async def test_acquiring_again_at_the_same_tab_extends_the_same_grant(worker) -> None:
    first = await worker.lock("ana", tab="one")
    again = await worker.lock("ana", tab="one")
    assert again.status_code == 200
    assert again.json()["fence"] == first.json()["fence"]


async def test_another_editor_gets_the_holders_name(worker) -> None:
    await worker.lock("ana")
    body = problem(await worker.lock("bob"), 409, "lock_busy")
    assert body["lock_holder"].items() >= HOLDER.items()
    assert body["lock_holder"]["same_user"] is False
    assert body["message"] == "Ana is editing this document"


async def test_a_second_tab_is_busy_and_may_move_the_lock_to_itself(worker) -> None:
    first = await worker.lock("ana", tab="one")
    body = problem(await worker.lock("ana", tab="two"), 409, "lock_busy")
    assert (body["lock_holder"]["same_user"], body["lock_holder"]["tab_is_mine"]) == (True, False)
    assert "another tab" in body["message"]
    moved = await worker.ask("ana", "POST", "/documents/doc/lock", tab="two", json={"move": True})
    assert moved.status_code == 200
    assert int(moved.json()["fence"]) > int(first.json()["fence"])
    problem(await worker.ask("ana", "POST", "/documents/doc/lock/heartbeat", tab="one"), 409, "lease_lost")


async def test_a_move_never_takes_from_another_user(worker) -> None:
    await worker.lock("ana")
    answer = await worker.ask("bob", "POST", "/documents/doc/lock", json={"move": True})
    assert problem(answer, 409, "lock_busy")["lock_holder"]["user_id"] == "ana"


async def test_the_tab_without_a_name_is_a_tab_of_its_own(worker) -> None:
    await worker.lock("ana")
    problem(await worker.lock("ana", tab="one"), 409, "lock_busy")
    assert (await worker.lock("ana", tab="")).status_code == 200


async def test_releasing_the_lock_of_another_changes_nothing_and_returns_the_state(worker) -> None:
    await worker.lock("ana")
    state = Lock.model_validate((await worker.unlock("bob")).json())
    assert state.lock_holder.user_id == "ana"


async def test_a_heartbeat_extends_the_hold_and_reports_the_idle_time(worker) -> None:
    await worker.lock("ana")
    path = "/documents/doc/lock/heartbeat"
    answer = ExtendedLock.model_validate((await worker.ask("ana", "POST", path)).json())
    assert answer.extended
    assert answer.lock_holder.idle_since is None
    idle = ExtendedLock.model_validate(
        (await worker.ask("ana", "POST", path, json={"idle_for": 12.5})).json()
    )
    assert idle.lock_holder.idle_since is not None


async def test_a_heartbeat_without_a_hold_is_lost_and_names_the_holder(worker) -> None:
    path = "/documents/doc/lock/heartbeat"
    assert "lock_holder" not in problem(await worker.ask("bob", "POST", path), 409, "lease_lost")
    await worker.lock("ana")
    body = problem(await worker.ask("bob", "POST", path), 409, "lease_lost")
    assert body["lock_holder"]["user_id"] == "ana"


async def test_an_editor_who_became_a_viewer_extends_nothing(worker) -> None:
    await worker.lock("ana")
    worker.host.roles.roles["ana"] = "viewer"
    body = problem(await worker.ask("ana", "POST", "/documents/doc/lock/heartbeat"), 409, "lease_lost")
    assert body["lock_holder"]["tab_is_mine"]
    assert (await worker.unlock("ana")).json()["locked"] is False


async def test_an_owner_takes_a_free_lock_at_once(worker) -> None:
    taken = TakenLock.model_validate(
        (await worker.ask("olga", "POST", "/documents/doc/lock/force-take")).json()
    )
    assert taken.lock_holder.tab_is_mine
    assert taken.saved is None


async def test_a_holder_who_saves_and_yields_is_followed_by_the_owner(worker) -> None:
    fence = int((await worker.lock("ana", tab="one")).json()["fence"])
    ana = await worker.socket("ana", "one", "doc")
    taking = asyncio.create_task(worker.ask("olga", "POST", "/documents/doc/lock/force-take"))
    asked = await ana.receive("document_force_save_requested")
    assert asked["lock"]["taking"]["user_name"] == "Olga"
    assert 0 < asked["lock"]["taking"]["seconds_left"] <= TIMES.save_within
    editor = Editor.at_tab("ana", "Ana", "one")
    await worker.router.documents.save(Save("doc", editor, "last words", 0, fence), release=True)
    taken = TakenLock.model_validate((await asyncio.wait_for(taking, LIMIT)).json())
    assert (taken.saved, taken.content_version) == (True, 1)
    assert int(taken.fence) > fence
    told = await ana.receive("document_force_taken")
    assert (told["saved"], told["lock_holder"]["user_id"]) == (True, "olga")


async def test_a_silent_holder_loses_the_lock(valkey) -> None:
    async with host(valkey.url) as made:
        worker = await made.worker(times=Times(save_within=0.2))
        await worker.lock("ana")
        taken = TakenLock.model_validate(
            (await worker.ask("olga", "POST", "/documents/doc/lock/force-take")).json()
        )
        assert taken.saved is False


async def test_of_two_owners_one_wins_and_the_other_gets_its_name(valkey, monkeypatch) -> None:
    meet(monkeypatch)
    async with host(valkey.url) as made:
        made.roles.roles["olaf"] = "owner"
        worker = await made.worker(times=Times(save_within=0.2))
        await worker.lock("ana")
        answers = await asyncio.gather(
            *[worker.ask(who, "POST", "/documents/doc/lock/force-take") for who in ("olga", "olaf")]
        )
        won, lost = sorted(answers, key=lambda answer: answer.status_code)
        winner = won.json()["lock_holder"]["user_id"]
        assert problem(lost, 409, "lock_busy")["lock_holder"]["user_id"] == winner


async def test_an_owner_who_disconnects_takes_nothing(worker) -> None:
    await worker.lock("ana", tab="one")
    ana = await worker.socket("ana", "one", "doc")
    taking = asyncio.create_task(worker.ask("olga", "POST", "/documents/doc/lock/force-take"))
    await ana.receive("document_force_save_requested")
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    withdrawn = await ana.receive("document_locked")
    assert withdrawn["lock"]["taking"] is None
    assert withdrawn["lock_holder"]["tab_is_mine"]


async def test_the_history_has_each_holder_and_why_the_hold_ended(worker) -> None:
    await worker.lock("ana")
    await worker.ask("ana", "DELETE", "/documents/doc/lock", params={"reason": "idle"})
    await worker.lock("bob")
    answer = await worker.ask("vera", "GET", "/documents/doc/lock/history", params={"limit": 10})
    bob, ana = LockHistory.model_validate(answer.json()).holds
    assert (ana.user_name, ana.reason, ana.ended_by.user_id) == ("Ana", "idle", "ana")
    assert (bob.user_name, bob.reason, bob.ended_at) == ("Bob", None, None)
    assert int(bob.fence) > int(ana.fence)
    only = await worker.ask("vera", "GET", "/documents/doc/lock/history", params={"limit": 1})
    assert [hold["user_name"] for hold in only.json()["holds"]] == ["Bob"]


async def test_a_ticket_opens_one_socket(worker) -> None:
    ticket = Ticket.model_validate((await worker.ask("ana", "POST", "/live/ticket")).json())
    assert ticket.expires_in == 30
    first, second = await worker.connect(), await worker.connect()
    assert (await first.ask("authenticate", ticket=ticket.ticket))["user_id"] == "ana"
    assert (await second.ask("authenticate", ticket=ticket.ticket))["code"] == "not_signed_in"
    assert await second.closed() == 4401


VERBS = {
    "look": ("GET", "/lock", "viewer"),
    "history": ("GET", "/lock/history", "viewer"),
    "acquire": ("POST", "/lock", "editor"),
    "release": ("DELETE", "/lock", "viewer"),
    "heartbeat": ("POST", "/lock/heartbeat", "viewer"),
    "force-take": ("POST", "/lock/force-take", "owner"),
}
RANK = {"zoe": 0, "vera": 1, "ana": 2, "olga": 3}


@pytest.mark.parametrize("verb", VERBS)
async def test_each_role_permits_what_it_should(worker, verb) -> None:
    method, path, needs = VERBS[verb]
    for who, rank in RANK.items():
        answer = await worker.ask(who, method, f"/documents/doc{path}")
        if rank < {"viewer": 1, "editor": 2, "owner": 3}[needs]:
            problem(answer, 403, "not_allowed")
        else:
            assert answer.status_code in ({200, 409} if verb == "heartbeat" else {200})
            await worker.unlock(who)
        problem(await worker.ask(who, method, f"/documents/nothing{path}"), 404, "not_found")
        if who != "olga":
            problem(await worker.ask(who, method, f"/documents/diary{path}"), 403, "not_allowed")
    problem(await worker.ask(None, method, f"/documents/doc{path}"), 401, "not_signed_in")


async def test_a_personal_document_cannot_be_taken_not_even_by_its_owner(worker) -> None:
    assert (await worker.lock("olga", "diary", tab="one")).status_code == 200
    problem(
        await worker.ask("olga", "POST", "/documents/diary/lock/force-take", tab="two"), 403, "not_allowed"
    )


async def test_a_ticket_needs_a_login(worker) -> None:
    answer = await worker.ask(None, "POST", "/live/ticket")
    problem(answer, 401, "not_signed_in")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_an_invalid_body_is_refused(worker) -> None:
    for body in (
        {"move": True, "user_id": "bob"},
        {"move": "yes"},
        {"move": 1},
        {"move": None},
        {"fence": "1"},
        [],
        "move",
        1,
    ):
        problem(await worker.ask("ana", "POST", "/documents/doc/lock", json=body), 422, "invalid_request")
    assert not (await worker.ask("ana", "GET", "/documents/doc/lock")).json()["locked"]


async def test_a_body_that_is_not_utf8_is_refused_like_any_other(worker) -> None:
    for path in ("/lock", "/lock/heartbeat"):
        answer = await worker.ask(
            "ana",
            "POST",
            f"/documents/doc{path}",
            content=b"\xff",
            headers={"Content-Type": "application/json"},
        )
        problem(answer, 422, "invalid_request")


async def test_numbers_and_reasons_have_bounds(worker) -> None:
    for idle_for in ("-1", "-0.001", "86401", "1e12", "NaN", "Infinity", '"5"', "true", "{}"):
        answer = await worker.ask(
            "ana",
            "POST",
            "/documents/doc/lock/heartbeat",
            content=f'{{"idle_for": {idle_for}}}',
            headers={"Content-Type": "application/json"},
        )
        problem(answer, 422, "invalid_request")
    for limit in ("0", "-1", "201", "x", "1e12", ""):
        answer = await worker.ask("ana", "GET", "/documents/doc/lock/history", params={"limit": limit})
        problem(answer, 422, "invalid_request")
    answer = await worker.ask("ana", "DELETE", "/documents/doc/lock", params={"reason": "taken"})
    problem(answer, 422, "invalid_request")


async def test_an_invalid_id_is_refused(worker) -> None:
    for document_id in ("%00", "a%00b", "%0A", "%7F", "x" * 129):
        problem(await worker.ask("ana", "GET", f"/documents/{document_id}/lock"), 422, "invalid_request")
    assert worker.host.roles.asked == 0


async def test_a_tab_that_is_not_short_printable_ascii_is_refused(worker) -> None:
    for tab in ("x" * 129, b"caf\xc3\xa9", b"a\tb"):
        answer = await worker.ask("ana", "POST", "/documents/doc/lock", headers={"Leasehold-Tab": tab})
        problem(answer, 422, "invalid_request")


async def test_a_tab_of_the_greatest_length_is_a_tab(worker) -> None:
    assert (await worker.lock("ana", tab="~" * 128)).status_code == 200


def kept_in(server) -> str:
    """Everything that the store of locks has."""
    read = {b"string": ("GET",), b"list": ("LRANGE", 0, -1)}
    kept = []
    for key in server.call("KEYS", "*"):
        assert server.call("PTTL", key) > 0
        command, *bounds = read[server.call("TYPE", key)]
        kept.append(f"{key} {server.call(command, key, *bounds)}")
    return "\n".join(kept)


async def test_names_of_tabs_and_tickets_appear_nowhere(worker, valkey, caplog) -> None:
    canary = "canary-tab-5e1f"
    with caplog.at_level(logging.DEBUG):
        bob = await worker.socket("bob", None, "doc")
        seen = [
            await worker.lock("ana", tab=canary),
            await worker.lock("bob"),
            await worker.ask("ana", "GET", "/documents/doc/lock", tab=canary),
            await worker.ask("ana", "POST", "/documents/doc/lock/heartbeat", tab=canary),
            await worker.ask("vera", "GET", "/documents/doc/lock/history"),
        ]
        ticket = (await worker.ask("ana", "POST", "/live/ticket")).json()["ticket"]
        kept = kept_in(valkey)
        seen.append(await worker.unlock("ana", tab=canary))
        events = [await bob.receive(), await bob.receive()]
        await (await worker.connect()).ask("authenticate", ticket=ticket, tab=canary)
    logs = [str(record.__dict__) for record in caplog.records if "leasehold" in record.name]
    told = "\n".join([*[answer.text for answer in seen], *map(str, events), *logs])
    for secret in (canary, ticket):
        assert secret not in told
        assert secret not in kept
    assert Editor.at_tab("", "", canary).tab not in told


async def test_grants_takes_and_refusals_are_audited(valkey, caplog) -> None:
    async with host(valkey.url) as made:
        worker = await made.worker(times=Times(save_within=0.2))
        with caplog.at_level(logging.INFO, "leasehold.audit"):
            granted = await worker.lock("ana")
            await worker.lock("bob")
            await worker.lock("vera")
            taken = await worker.ask("olga", "POST", "/documents/doc/lock/force-take")
    audited = [
        (record.action, record.user_id, record.document_id, getattr(record, "fence", None))
        for record in caplog.records
        if record.name == "leasehold.audit"
    ]
    assert audited == [
        ("lock_granted", "ana", "doc", granted.json()["fence"]),
        ("lock_busy", "bob", "doc", None),
        ("access_refused", "vera", "doc", None),
        ("lock_taken", "olga", "doc", taken.json()["fence"]),
    ]


async def test_without_the_store_the_outcome_is_reported_as_unknown(own_server) -> None:
    server = own_server("valkey9")
    async with host(server.url) as made:
        worker = await made.worker(timeout=2)
        assert (await worker.lock("ana")).status_code == 200
        server.kill()
        asked = (("GET", "/lock"), ("POST", "/lock"), ("DELETE", "/lock"), ("POST", "/lock/force-take"))
        for answer in await asyncio.gather(
            *[worker.ask("olga", method, f"/documents/doc{path}") for method, path in asked]
        ):
            body = problem(answer, 503, "store_unavailable")
            assert "unknown" in body["message"]
            assert "127.0.0.1" not in answer.text
            assert int(answer.headers["retry-after"]) >= 1


async def test_a_failing_policy_is_a_failure_and_not_a_permission(worker) -> None:
    worker.host.roles.failing = RuntimeError("canary")
    answer = await worker.lock("ana")
    assert answer.status_code == 500
    assert "canary" not in answer.text
    worker.host.roles.failing = None
    assert not (await worker.ask("ana", "GET", "/documents/doc/lock")).json()["locked"]


def a_router(**options):
    async def no_user() -> None:
        raise leasehold.NotSignedIn("who are you?")

    return lock_router(
        leasehold.connect("redis://127.0.0.1:1"), current_user=no_user, access=None, store=None, **options
    )


def client_of(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://host")


async def test_an_application_keeps_its_own_exception_handlers() -> None:
    app = FastAPI()
    app.include_router(a_router())

    @app.exception_handler(leasehold.NotSignedIn)
    async def own(_request, _error) -> JSONResponse:
        return JSONResponse({"own": True}, 401)

    async with client_of(app) as client:
        assert (await client.get("/api/documents/doc/lock")).json() == {"own": True}
        answer = await client.post(
            "/api/documents/doc/lock", json={"what": 1}, headers={"Leasehold-Tab": "x" * 129}
        )
        assert answer.status_code == 401


async def test_the_application_chooses_the_paths() -> None:
    app = FastAPI()
    app.include_router(a_router(prefix="/v1", socket_path="/live"), prefix="/wiki")
    async with client_of(app) as client:
        problem(await client.get("/wiki/v1/documents/doc/lock"), 401, "not_signed_in")
        assert (await client.get("/api/documents/doc/lock")).status_code == 404
    assert app.url_path_for("socket") == "/wiki/live"


async def test_a_whole_application_can_answer_with_problems() -> None:
    app = FastAPI()
    install_problems(app)
    app.include_router(a_router())

    @app.get("/{number}")
    async def own(number: int) -> None:
        if number == 1:
            raise RuntimeError("canary")
        raise HTTPException(number, "said to the caller", {"X-Own": "kept"})

    async with client_of(app) as client:
        problem(await client.get("/no/where"), 404, "not_found")
        refused = await client.post("/404")
        problem(refused, 405, "invalid_request")
        assert refused.headers["allow"] == "GET"
        refused = await client.put("/api/documents/doc/lock")
        problem(refused, 405, "invalid_request")
        assert refused.headers["allow"] == "DELETE, GET, POST"
        problem(await client.get("/x"), 422, "invalid_request")
        for status, code in (
            (401, "not_signed_in"),
            (403, "not_allowed"),
            (418, "invalid_request"),
            (502, "leasehold_error"),
        ):
            answer = await client.get(f"/{status}")
            problem(answer, status, code)
            assert answer.headers["x-own"] == "kept"
            assert answer.json()["message"] == "said to the caller"
        failed = await client.get("/1")
        problem(failed, 500, "leasehold_error")
        assert "canary" not in failed.text


def test_the_openapi_document_is_complete() -> None:
    app = FastAPI()
    app.include_router(a_router())
    operations = {
        operation["operationId"]: (method, path, operation)
        for path, item in app.openapi()["paths"].items()
        for method, operation in item.items()
    }
    assert {name: (method, path) for name, (method, path, _) in operations.items()} == {
        "get_lock": ("get", "/api/documents/{document_id}/lock"),
        "acquire_lock": ("post", "/api/documents/{document_id}/lock"),
        "release_lock": ("delete", "/api/documents/{document_id}/lock"),
        "heartbeat_lock": ("post", "/api/documents/{document_id}/lock/heartbeat"),
        "force_take_lock": ("post", "/api/documents/{document_id}/lock/force-take"),
        "get_lock_history": ("get", "/api/documents/{document_id}/lock/history"),
        "issue_ticket": ("post", "/api/live/ticket"),
    }
    for name, (_, path, operation) in operations.items():
        expected = {"200", "401", "422", "429", "503"}
        if "document_id" in path:
            expected |= {"403", "404"}
        if name in {"acquire_lock", "heartbeat_lock", "force_take_lock"}:
            expected.add("409")
        assert set(operation["responses"]) == expected
        for status, response in operation["responses"].items():
            assert list(response["content"]) == [
                "application/json" if status == "200" else "application/problem+json"
            ]
            if status != "200":
                assert "$ref" not in str(response)
