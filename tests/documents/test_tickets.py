"""Tickets open one socket, once, and not after the login has ended."""

from __future__ import annotations

import asyncio
import json
import math
import time

import pytest
import redis.asyncio
from tests.support.matrix import OURS

import leasehold
from leasehold.documents.live.worker_notices import RightsChanged, SessionsEnded, WorkerNotices
from leasehold.documents.ports import Principal, principal_of
from leasehold.documents.store import tickets as module
from leasehold.documents.store.tickets import Admission, Tickets

ANA = Principal("ana", "Ana Äöü", expires_at=time.time() + 3600, session_id="s-1")
NAMELESS = Principal("bob", "Bob")


@pytest.fixture
async def client(any_server, how):
    """On every server, over every way in."""
    if how == OURS:
        async with leasehold.connect(any_server.url) as made:
            yield made
    else:
        lent = redis.asyncio.Redis.from_url(any_server.url)
        async with leasehold.from_client(lent) as made:
            yield made
        await lent.aclose()


@pytest.mark.parametrize("principal", [ANA, NAMELESS], ids=["with a session", "without"])
@pytest.mark.every_way_in
async def test_a_ticket_has_its_user_and_its_time(client, any_server, principal) -> None:
    tickets = Tickets(client.store_access.transport)
    before = int(any_server.call("TIME")[0])
    admission = await tickets.use(await tickets.issue(principal))
    assert admission.principal == principal
    assert before <= admission.since_ms / 1000 <= before + 60


@pytest.mark.every_way_in
async def test_a_ticket_is_accepted_once_however_many_try(client) -> None:
    tickets = Tickets(client.store_access.transport)
    ticket = await tickets.issue(ANA)
    uses = await asyncio.gather(*[tickets.use(ticket) for _ in range(50)])
    assert sum(use is not None for use in uses) == 1
    assert await tickets.use(ticket) is None


@pytest.mark.parametrize("ticket", ["", "x", "x" * 128, "doc_lock", "*", "\0", "a b"])
async def test_an_unknown_ticket_is_refused(client, ticket) -> None:
    assert await Tickets(client.store_access.transport).use(ticket) is None


async def test_a_ticket_expires(client, monkeypatch) -> None:
    monkeypatch.setattr(module, "LIFETIME", 0.05)
    tickets = Tickets(client.store_access.transport)
    ticket = await tickets.issue(ANA)
    await asyncio.sleep(0.1)
    assert await tickets.use(ticket) is None


async def test_reading_the_store_reveals_no_ticket(client, any_server) -> None:
    ticket = await Tickets(client.store_access.transport).issue(ANA)
    (key,) = any_server.call("KEYS", "doc_lock:ticket:*")
    assert ticket.encode() not in key
    assert ticket.encode() not in any_server.call("GET", key)
    assert 0 < any_server.call("PTTL", key) <= 30_000


async def test_tickets_differ(client) -> None:
    tickets = Tickets(client.store_access.transport)
    issued = {await tickets.issue(ANA) for _ in range(100)}
    assert len(issued) == 100
    assert all(len(ticket) >= 32 for ticket in issued)


@pytest.mark.every_way_in
async def test_an_ended_session_has_ended_for_every_login_with_it(client, any_server) -> None:
    notices, tickets = WorkerNotices(client.store_access.transport), Tickets(client.store_access.transport)
    other = Principal("ana", "Ana", session_id="s-2")
    admissions = [await tickets.use(await tickets.issue(who)) for who in (ANA, other, NAMELESS)]
    assert await notices.have_ended(admissions) == [False, False, False]
    await notices.end_sessions("ana", "s-1")
    assert await notices.have_ended(admissions) == [True, False, False]
    (key,) = any_server.call("KEYS", "doc_lock:ended:*")
    assert any_server.call("PTTL", key) > 0


async def test_all_sessions_of_a_user_end_but_not_those_that_begin_afterwards(client) -> None:
    notices, tickets = WorkerNotices(client.store_access.transport), Tickets(client.store_access.transport)
    before = await tickets.use(await tickets.issue(ANA))
    someone_else = await tickets.use(await tickets.issue(NAMELESS))
    ended = await notices.end_sessions("ana", None)
    await asyncio.sleep(0.005)
    after = await tickets.use(await tickets.issue(ANA))
    assert await notices.have_ended([before, someone_else, after]) == [True, False, False]
    assert [ended.includes(each) for each in (before, after)] == [True, False]


async def test_a_session_called_asterisk_is_only_itself(client) -> None:
    notices, tickets = WorkerNotices(client.store_access.transport), Tickets(client.store_access.transport)
    admission = await tickets.use(await tickets.issue(ANA))
    await notices.end_sessions("ana", "*")
    assert await notices.have_ended([admission]) == [False]
    starred = Admission(Principal("ana", "Ana", session_id="*"), 0)
    assert await notices.have_ended([starred]) == [True]


async def test_the_number_of_stored_ended_sessions_is_limited(client, any_server) -> None:
    notices = WorkerNotices(client.store_access.transport)
    for number in range(250):
        await notices.end_sessions("ana", f"s-{number}")
    (key,) = any_server.call("KEYS", "doc_lock:ended:*")
    assert any_server.call("ZCARD", key) == 200
    newest = Admission(Principal("ana", "Ana", session_id="s-249"), 0)
    assert await notices.have_ended([newest]) == [True]


async def test_other_workers_get_notices(valkey) -> None:
    received, gaps = [], []
    async with leasehold.connect(valkey.url) as here, leasehold.connect(valkey.url) as there:
        assert await WorkerNotices(there.store_access.transport).listen(
            received.append, lambda: gaps.append(True)
        )
        told = WorkerNotices(here.store_access.transport)
        await told.announce_rights_changed("ana")
        await told.announce_rights_changed(None)
        one = await told.end_sessions("ana", "s-1")
        every = await told.end_sessions("ana", None)
        for nonsense in ("", "{}", "[]", json.dumps({"kind": "sessions_ended"}), '{"kind": "new"}'):
            valkey.call("PUBLISH", "doc_lock:notices", nonsense)
        await told.announce_rights_changed("last")
        async with asyncio.timeout(20):
            while RightsChanged("last") not in received:
                await asyncio.sleep(0.01)
    assert received == [RightsChanged("ana"), RightsChanged(None), one, every, RightsChanged("last")]
    assert isinstance(one, SessionsEnded)
    assert every.session_id is None


def test_a_user_of_the_host_application_is_anything_with_an_id_and_a_name() -> None:
    class User:
        id = 42
        name = "Ana"

    assert principal_of(User()) == Principal("42", "Ana", math.inf, "")
    User.expires_at, User.session_id = 1.5, 7
    assert principal_of(User()) == Principal("42", "Ana", 1.5, "7")
    assert principal_of(ANA) is ANA
    assert (ANA.id, ANA.name) == ("ana", "Ana Äöü")
