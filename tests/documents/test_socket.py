"""One socket from the handshake to its close: every message and every close code."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
import websockets
from tests.documents.workers import TIMES, host
from tests.support.eventually import LIMIT, eventually_async

from leasehold import StoreUnavailable
from leasehold.documents import Times
from leasehold.documents.fastapi import SocketLimits
from leasehold.documents.live.messages import FROM_SERVER


@pytest.fixture
async def made(valkey):
    async with host(valkey.url) as application:
        yield application


@pytest.fixture
async def worker(made):
    return await made.worker()


async def nobody_left(worker) -> None:
    """The worker has forgotten every socket and every room."""
    hub = worker.hub
    await eventually_async(
        lambda: not hub._rooms and not hub.presence.of(None) and not hub.presence.connecting
    )


async def test_a_token_is_answered_with_the_user_and_the_times(worker) -> None:
    until = time.time() + 3600
    worker.host.sign_ins.expires_at["ana.s1"] = until
    live_socket = await worker.connect()
    assert await live_socket.ask("authenticate", token="ana.s1", tab="one") == {
        "type": "authenticated",
        "user_id": "ana",
        "user_name": "Ana",
        "expires_at": until,
        "ttl": TIMES.ttl,
        "heartbeat": TIMES.heartbeat,
        "idle": TIMES.idle,
    }


async def test_a_login_without_end_is_null(worker) -> None:
    live_socket = await worker.connect()
    assert (await live_socket.ask("authenticate", token="ana"))["expires_at"] is None


@pytest.mark.parametrize(
    "data", [{"token": "0"}, {"token": "ended"}, {"ticket": "never issued"}], ids=["token", "ended", "ticket"]
)
async def test_a_socket_without_a_login_is_refused_and_closed(worker, data) -> None:
    worker.host.sign_ins.ended.add("ended")
    live_socket = await worker.connect()
    assert (await live_socket.ask("authenticate", **data))["code"] == "not_signed_in"
    assert await live_socket.closed() == 4401
    await nobody_left(worker)


async def test_an_expired_token_is_refused(worker) -> None:
    worker.host.sign_ins.expires_at["ana"] = time.time() - 1
    live_socket = await worker.connect()
    assert (await live_socket.ask("authenticate", token="ana"))["code"] == "not_signed_in"
    assert await live_socket.closed() == 4401


async def test_without_authenticate_only_tickets_are_accepted(made) -> None:
    worker = await made.worker(authenticate=None)
    live_socket = await worker.connect()
    assert (await live_socket.ask("authenticate", token="ana"))["code"] == "not_signed_in"
    assert await live_socket.closed() == 4401
    ticket = (await worker.ask("ana", "POST", "/live/ticket")).json()["ticket"]
    assert (await (await worker.connect()).ask("authenticate", ticket=ticket))["user_id"] == "ana"


async def test_no_message_is_answered_before_authentication(worker) -> None:
    for kind in ("join", "leave", "heartbeat", "ping"):
        live_socket = await worker.connect()
        data = {} if kind == "ping" else {"document_id": "doc"}
        assert (await live_socket.ask(kind, **data))["code"] == "not_signed_in"
        assert await live_socket.closed() == 4401
    assert worker.host.roles.asked == 0
    assert not worker.hub._rooms


UNREADABLE = {
    "empty": "",
    "no json": "hello",
    "no object": "[]",
    "no type": '{"data": {}}',
    "no such type": '{"type": "shout", "data": {}}',
    "no data": '{"type": "join"}',
    "no document": '{"type": "join", "data": {}}',
    "a number as document": '{"type": "join", "data": {"document_id": 1}}',
    "an empty document": '{"type": "join", "data": {"document_id": ""}}',
    "a long document": json.dumps({"type": "join", "data": {"document_id": "x" * 129}}),
    "nul": json.dumps({"type": "join", "data": {"document_id": "a\0b"}}),
    "a lone surrogate": '{"type": "join", "data": {"document_id": "\\ud800"}}',
    "too much": '{"type": "join", "data": {"document_id": "doc", "user_id": "olga"}}',
    "too much outside": '{"type": "ping", "data": {}, "as": "olga"}',
    "idle for less than nothing": '{"type": "heartbeat", "data": {"document_id": "doc", "idle_for": -1}}',
    "idle for NaN": '{"type": "heartbeat", "data": {"document_id": "doc", "idle_for": NaN}}',
    "idle for ever": '{"type": "heartbeat", "data": {"document_id": "doc", "idle_for": 1e12}}',
    "idle for text": '{"type": "heartbeat", "data": {"document_id": "doc", "idle_for": "1"}}',
    "deep": "[" * 20000,
    "again": '{"type": "authenticate", "data": {"token": "olga"}}',
    "neither": '{"type": "authenticate", "data": {}}',
    "both": '{"type": "authenticate", "data": {"token": "olga", "ticket": "x"}}',
    "binary": b'{"type": "ping", "data": {}}',
}


async def test_an_invalid_message_is_answered_and_if_repeated_closes_the_socket(made) -> None:
    worker = await made.worker(limits=SocketLimits(mistakes=len(UNREADABLE)))
    live_socket = await worker.socket("ana")
    for said in UNREADABLE.values():
        await live_socket.socket.send(said)
        answer = await live_socket.receive("error")
        assert answer["code"] == "invalid_request", said
        assert len(answer["message"]) < 500
    assert await live_socket.closed() == 4400
    assert worker.host.roles.asked == 0
    await nobody_left(worker)


async def test_an_invalid_first_message_closes_the_socket(worker) -> None:
    for what in UNREADABLE.keys() - {"again"}:
        live_socket = await worker.connect()
        await live_socket.socket.send(UNREADABLE[what])
        assert (await live_socket.receive("error"))["code"] == "invalid_request", what
        assert await live_socket.closed() == 4400


async def test_joining_returns_the_role_and_the_lock(worker) -> None:
    await worker.lock("ana", tab="one")
    vera = await worker.socket("vera")
    joined = await vera.ask("join", document_id="doc")
    assert (joined["type"], joined["document_id"], joined["role"]) == ("joined", "doc", "viewer")
    assert joined["lock"]["lock_holder"]["user_id"] == "ana"
    assert joined["lock"]["lock_holder"]["same_user"] is False
    ana = await worker.socket("ana", "one")
    joined = await ana.ask("join", document_id="doc")
    assert (joined["role"], joined["lock"]["lock_holder"]["tab_is_mine"]) == ("editor", True)
    elsewhere = await worker.socket("ana", "two")
    holder = (await elsewhere.ask("join", document_id="doc"))["lock"]["lock_holder"]
    assert (holder["same_user"], holder["tab_is_mine"]) == (True, False)


@pytest.mark.parametrize(
    ("who", "document_id", "code"),
    [("zoe", "doc", "not_allowed"), ("ana", "diary", "not_allowed"), ("ana", "nothing", "not_found")],
)
async def test_a_room_that_a_user_may_not_see_is_never_created(worker, who, document_id, code) -> None:
    live_socket = await worker.socket(who)
    answer = await live_socket.ask("join", document_id=document_id)
    assert (answer["type"], answer["code"], answer["document_id"]) == ("error", code, document_id)
    assert not worker.hub._rooms
    await live_socket.assert_no_message()
    await worker.lock("olga", "doc")
    await live_socket.assert_no_message()


async def test_a_room_is_left_and_joined_again(worker) -> None:
    live_socket = await worker.socket("vera", None, "doc")
    assert await live_socket.ask("leave", document_id="doc") == {"type": "left", "document_id": "doc"}
    await worker.lock("ana")
    await live_socket.assert_no_message()
    assert not worker.hub._rooms
    assert (await live_socket.ask("leave", document_id="doc"))["type"] == "left"
    assert (await live_socket.ask("join", document_id="doc"))["lock"]["locked"]
    assert (await live_socket.ask("join", document_id="doc"))["lock"]["locked"]
    await worker.unlock("ana")
    await live_socket.receive("document_unlocked")
    await live_socket.assert_no_message()


async def test_a_heartbeat_over_the_socket_extends_the_hold_of_this_tab_alone(worker) -> None:
    await worker.lock("ana", tab="one")
    one, two, bob = (
        await worker.socket("ana", "one"),
        await worker.socket("ana", "two"),
        await worker.socket("bob"),
    )
    beat = await one.ask("heartbeat", document_id="doc", idle_for=2)
    assert (beat["type"], beat["document_id"], beat["extended"]) == ("heartbeat", "doc", True)
    assert beat["lock_holder"]["idle_since"] is not None
    for live_socket, is_same in ((two, True), (bob, False)):
        beat = await live_socket.ask("heartbeat", document_id="doc")
        assert beat["extended"] is False
        assert beat["lock_holder"]["same_user"] is is_same
    assert (await bob.ask("heartbeat", document_id="nothing"))["code"] == "not_found"
    assert (await (await worker.socket("zoe")).ask("heartbeat", document_id="doc"))["code"] == "not_allowed"


async def test_heartbeats_are_requested_from_the_tab_that_holds_the_lock(made) -> None:
    worker = await made.worker(times=Times(ttl=60, heartbeat=0.1))
    one = await worker.socket("ana", "one", "doc", "other")
    others = [await worker.socket("ana", "two", "doc"), await worker.socket("bob", "one", "doc")]
    elsewhere = await worker.socket("ana", "one")
    await worker.lock("ana", "doc", tab="one")
    await worker.lock("ana", "other", tab="one")
    asked: set[str] = set()
    async with asyncio.timeout(LIMIT):
        while asked != {"doc", "other"}:
            message = await one.receive("document_locked", "heartbeat_requested")
            if message["type"] == "heartbeat_requested":
                asked = set(message["document_ids"])
    for other in others:
        await other.receive("document_locked")
        await other.assert_no_message()
    await elsewhere.assert_no_message()
    await worker.unlock("ana", "doc", tab="one")
    await worker.unlock("ana", "other", tab="one")
    async with asyncio.timeout(LIMIT):
        unlocked = 0
        while unlocked < 2:
            unlocked += (await one.receive())["type"] == "document_unlocked"
    await asyncio.sleep(0.3)
    await one.assert_no_message()


async def test_a_silent_socket_is_closed(made) -> None:
    worker = await made.worker(limits=SocketLimits(authenticate_within=0.1))
    live_socket = await worker.connect()
    assert await live_socket.closed() == 4408
    await nobody_left(worker)


async def test_a_socket_that_is_not_authenticated_in_time_is_closed(made) -> None:
    asked = asyncio.Event()

    async def slow(_token):
        asked.set()
        await asyncio.Event().wait()

    worker = await made.worker(authenticate=slow, limits=SocketLimits(authenticate_within=3))
    live_socket = await worker.connect()
    await live_socket.send("authenticate", token="ana")
    assert await live_socket.closed() == 4408
    assert asked.is_set()


async def test_unauthenticated_sockets_are_capped(made) -> None:
    worker = await made.worker(limits=SocketLimits(unauthenticated=2))
    first, second = await worker.connect(), await worker.connect()
    await eventually_async(lambda: len(worker.hub.presence.connecting) == 2)
    with pytest.raises(websockets.InvalidStatus) as refused:
        await worker.connect()
    assert refused.value.response.status_code == 503
    assert (await first.ask("authenticate", token="ana"))["type"] == "authenticated"
    third = await worker.connect()
    await second.socket.close()
    assert (await third.ask("authenticate", token="bob"))["type"] == "authenticated"


async def test_pages_of_other_origins_are_refused_at_the_handshake(made, caplog) -> None:
    worker = await made.worker(allowed_origins=["https://app.example.com"])
    for origin in ("https://evil.example.com", "null", f"http://127.0.0.1:{worker.port + 1}"):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await worker.connect(origin=origin)
        assert refused.value.response.status_code == 403
    for origin in ("https://app.example.com", f"http://127.0.0.1:{worker.port}", None):
        await worker.connect(origin=origin)
    two = [("Origin", "https://app.example.com"), ("Origin", "https://evil.example.com")]
    with pytest.raises(websockets.InvalidStatus):
        await worker.connect(additional_headers=two)


async def test_sockets_are_capped_per_user(made) -> None:
    worker = await made.worker(limits=SocketLimits(sockets_per_user=2))
    first = await worker.socket("ana")
    await worker.socket("ana")
    third = await worker.connect()
    await third.send("authenticate", token="ana")
    assert await third.closed() == 4409
    await worker.socket("bob")
    await first.socket.close()
    await eventually_async(lambda: len(worker.hub.presence.of("ana")) == 1)
    await worker.socket("ana")


async def test_rooms_are_capped_per_socket(made) -> None:
    worker = await made.worker(limits=SocketLimits(rooms_per_socket=1))
    live_socket = await worker.socket("olga", None, "doc")
    refused = await live_socket.ask("join", document_id="other")
    assert (refused["code"], refused["document_id"]) == ("rate_limited", "other")
    assert (await live_socket.ask("join", document_id="doc"))["type"] == "joined"
    await live_socket.ask("leave", document_id="doc")
    assert (await live_socket.ask("join", document_id="other"))["type"] == "joined"


async def test_a_flood_of_messages_closes_the_socket(made) -> None:
    worker = await made.worker(limits=SocketLimits(messages_per_second=0.001, burst=5))
    live_socket = await worker.socket("ana")
    for _ in range(4):
        await live_socket.assert_no_message()
    await live_socket.send("ping")
    assert await live_socket.closed() == 4429
    await nobody_left(worker)


@pytest.mark.parametrize("text", ["x" * 65537, "ä" * 32769], ids=["characters", "bytes"])
async def test_a_message_that_is_too_large_closes_the_socket(worker, text) -> None:
    live_socket = await worker.socket("ana")
    await live_socket.socket.send(text)
    assert await live_socket.closed() == 4413


async def test_the_largest_message_is_read(worker) -> None:
    live_socket = await worker.socket("ana")
    await live_socket.socket.send(json.dumps({"type": "ping", "data": {}}).ljust(65536))
    await live_socket.receive("pong")


async def test_a_socket_closes_when_its_login_expires(worker) -> None:
    worker.host.sign_ins.expires_at["ana"] = time.time() + 4
    live_socket = await worker.socket("ana", None, "doc")
    assert await live_socket.closed() == 4401
    assert time.time() >= worker.host.sign_ins.expires_at["ana"]
    await nobody_left(worker)


async def test_a_message_after_the_login_has_expired_is_not_answered(worker) -> None:
    """Timers stop while a machine sleeps; the clock does not."""
    worker.host.sign_ins.expires_at["ana"] = time.time() + 3600
    live_socket = await worker.socket("ana")
    (socket,) = worker.hub.presence.of("ana")
    who = socket.admission.principal
    socket.admission = socket.admission._replace(principal=type(who)(who.user_id, who.user_name, time.time()))
    await live_socket.send("join", document_id="doc")
    assert await live_socket.closed() == 4401
    assert worker.host.roles.asked == 0


async def test_a_session_that_ends_closes_its_sockets_and_no_others(worker) -> None:
    one, two, bob = [await worker.socket(token) for token in ("ana.s1", "ana.s2", "bob.s1")]
    await worker.router.sessions_ended("ana", "s1")
    assert await one.closed() == 4401
    await two.assert_no_message()
    await worker.router.sessions_ended("ana")
    assert await two.closed() == 4401
    await bob.assert_no_message()


async def test_a_ticket_of_an_ended_session_is_refused(worker) -> None:
    for ended in ("s1", None):
        ticket = (await worker.ask("ana.s1", "POST", "/live/ticket")).json()["ticket"]
        await worker.router.sessions_ended("ana", ended)
        live_socket = await worker.connect()
        assert (await live_socket.ask("authenticate", ticket=ticket))["code"] == "not_signed_in"
        assert await live_socket.closed() == 4401


async def test_a_session_that_ends_while_its_token_is_verified_is_refused(made) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(token):
        principal = await made.sign_ins.authenticate(token)
        asked.set()
        await go.wait()
        return principal

    worker = await made.worker(authenticate=slow)
    live_socket = await worker.connect()
    await live_socket.send("authenticate", token="ana.s1")
    await asyncio.wait_for(asked.wait(), LIMIT)
    await worker.router.sessions_ended("ana", "s1")
    go.set()
    assert (await live_socket.receive("error"))["code"] == "not_signed_in"
    assert await live_socket.closed() == 4401


async def test_permissions_are_checked_at_every_message(worker) -> None:
    live_socket = await worker.socket("vera", None, "doc", "other")
    worker.host.roles.roles["vera"] = None
    assert (await live_socket.ask("heartbeat", document_id="doc"))["code"] == "not_allowed"
    assert await live_socket.receive() == {"type": "room_closed", "document_id": "doc", "code": "not_allowed"}
    assert await live_socket.ask("ping") == {
        "type": "room_closed",
        "document_id": "other",
        "code": "not_allowed",
    }
    await live_socket.receive("pong")
    assert not worker.hub._rooms
    await worker.lock("ana")
    await live_socket.assert_no_message()


async def test_a_ping_asks_for_one_permission_however_many_documents_are_joined(worker) -> None:
    documents = [f"doc {n}" for n in range(20)]
    worker.host.roles.documents |= {*documents}
    talk = await worker.socket("vera", None, *documents)
    before = worker.host.roles.asked
    for pings in range(1, 4):
        await talk.ask("ping")
        assert worker.host.roles.asked == before + pings


async def test_pings_find_every_joined_document_that_may_not_be_watched_any_more(worker) -> None:
    talk = await worker.socket("vera", None, "doc", "other")
    worker.host.roles.documents.remove("other")
    answers = [(await talk.ask("ping"))["type"] for _ in range(2)]
    assert sorted(answers) == ["pong", "room_closed"]


async def test_changed_permissions_close_rooms(worker) -> None:
    vera, bob = await worker.socket("vera", None, "doc", "other"), await worker.socket("bob", None, "doc")
    worker.host.roles.roles["vera"] = None
    worker.host.roles.roles["bob"] = None
    await worker.router.rights_changed("vera")
    closed = [await vera.receive("room_closed"), await vera.receive("room_closed")]
    assert {each["document_id"] for each in closed} == {"doc", "other"}
    assert list(worker.hub._rooms) == ["doc"]
    await worker.router.rights_changed()
    assert await bob.receive() == {"type": "room_closed", "document_id": "doc", "code": "not_allowed"}
    await worker.lock("ana")
    await vera.assert_no_message()
    await bob.assert_no_message()


async def test_a_document_that_is_deleted_closes_its_room(worker) -> None:
    live_socket = await worker.socket("vera", None, "doc")
    worker.host.roles.documents.remove("doc")
    await worker.router.rights_changed()
    assert (await live_socket.receive("room_closed"))["code"] == "not_found"


async def test_unchanged_permissions_close_nothing(worker) -> None:
    live_socket = await worker.socket("vera", None, "doc")
    before = worker.host.roles.asked
    await worker.router.rights_changed()
    await eventually_async(lambda: worker.host.roles.asked > before)
    await worker.lock("ana")
    await live_socket.receive("document_locked")


async def test_permissions_that_change_during_a_join_are_checked_again(made) -> None:
    worker = await made.worker()
    live_socket = await worker.socket("vera")
    state = worker.router.documents.state

    async def revoke_meanwhile(document_id):
        made.roles.roles["vera"] = None
        await worker.router.rights_changed("vera")
        return await state(document_id)

    worker.router.documents.state = revoke_meanwhile
    assert (await live_socket.ask("join", document_id="doc"))["code"] == "not_allowed"
    assert not worker.hub._rooms


async def test_a_failing_recheck_makes_the_client_reconnect(worker, monkeypatch) -> None:
    monkeypatch.setattr("leasehold.documents.live.permission_recheck._TRIES", 2)
    live_socket = await worker.socket("vera", None, "doc")
    worker.host.roles.failing = RuntimeError("the database is away")
    await worker.router.rights_changed()
    assert await live_socket.closed() == 1012


async def test_a_message_that_fails_is_answered_with_an_error_and_the_socket_goes_on(worker) -> None:
    live_socket = await worker.socket("vera", None, "doc")
    worker.host.roles.failing = RuntimeError("canary")
    failed = await live_socket.ask("join", document_id="other")
    assert (failed["code"], failed["document_id"]) == ("leasehold_error", "other")
    assert "canary" not in str(failed)
    worker.host.roles.failing = StoreUnavailable("canary")
    failed = await live_socket.ask("heartbeat", document_id="doc")
    assert failed["code"] == "store_unavailable"
    assert "canary" not in str(failed)
    worker.host.roles.failing = None
    await worker.lock("ana")
    await live_socket.receive("document_locked")


async def test_a_failing_authentication_closes_the_socket_without_details(made) -> None:
    async def broken(_token):
        raise RuntimeError("canary")

    worker = await made.worker(authenticate=broken)
    live_socket = await worker.connect()
    await live_socket.send("authenticate", token="ana")
    assert await live_socket.closed() == 1011
    await nobody_left(worker)


async def test_without_the_store_sockets_are_closed_as_going_away(own_server) -> None:
    server = own_server("valkey9")
    async with host(server.url) as made:
        worker = await made.worker(timeout=2)
        watching = await worker.socket("vera", None, "doc")
        server.kill()
        live_socket = await worker.connect()
        assert (await live_socket.ask("authenticate", token="ana"))["code"] == "store_unavailable"
        assert await live_socket.closed() == 1012
        assert (await watching.ask("join", document_id="other"))["code"] == "store_unavailable"
        assert (await watching.ask("heartbeat", document_id="doc"))["code"] == "store_unavailable"
        await watching.assert_no_message()


async def test_a_client_that_disconnects_leaves_nothing_behind(worker) -> None:
    talks = [await worker.socket("ana", None, "doc", "other"), await worker.socket("vera", None, "doc")]
    await talks[0].socket.close()
    talks[1].socket.transport.abort()
    await nobody_left(worker)
    assert not worker.hub._timers._timers


async def test_every_message_from_the_server_matches_the_schema(worker) -> None:
    """Every message is read as a client would, and matches the server's own types."""
    live_socket = await worker.connect()
    said = [
        ("authenticate", {"token": "ana", "tab": "one"}),
        ("join", {"document_id": "doc"}),
        ("heartbeat", {"document_id": "doc"}),
        ("ping", {}),
        ("leave", {"document_id": "doc"}),
        ("join", {"document_id": "nothing"}),
    ]
    for kind, data in said:
        await live_socket.send(kind, **data)
        text = await asyncio.wait_for(live_socket.socket.recv(), LIMIT)
        message = FROM_SERVER.validate_json(text, strict=True)
        assert json.loads(message.model_dump_json()) == json.loads(text)
