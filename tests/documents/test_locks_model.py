"""The scripts do what the model does, at every step of long random sequences; and the comparison can fail."""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import replace

import pytest
from tests.documents.random_walk import TIMES, RandomWalk

import leasehold
from leasehold.documents.store import scripts
from leasehold.documents.store.events import EventBus
from leasehold.documents.store.lock_store import DocumentLockStore


async def walk_randomly(server, *, documents, steps, seed, forgetful=False):
    """So many documents at once, each with its model."""
    # With timeouts so long that no request is repeated, which the model does not cover.
    async with leasehold.connect(server.url, timeout=100) as client:
        lock_store = DocumentLockStore(client.store_access.transport, TIMES)
        walks = {name: RandomWalk(name, lock_store, seed) for name in (f"doc-{n}" for n in range(documents))}
        events = EventBus(client.store_access.transport)
        events.listen(lambda event: walks[event.state.document_id].events.append(event), lambda: None)
        assert await events.subscribe()

        async def forget():
            # Behind everything that was sent before, and before everything that is sent after.
            await (await client.store_access.transport.get_connection()).call("FLUSHALL")
            for one in walks.values():
                one.model.forget()

        async with asyncio.TaskGroup() as together:
            for one in walks.values():
                together.create_task(one.run(steps, forget if forgetful else None))
        # Events published before the last reply have arrived when this one has.
        await (await client.store_access.transport.get_connection()).call("PING")
        return list(walks.values())


@pytest.mark.timeout(600)
async def test_random_sequences_agree_with_the_model(any_server, count):
    reasons: set[str] = set()
    for _ in range(10):
        seed = random.randrange(10**6)
        walks = await walk_randomly(
            any_server, documents=count(full=300, quick=80), steps=count(full=120, quick=40), seed=seed
        )
        for one in walks:
            one.check_events()
        reasons |= {past.reason for one in walks for past in one.model.history}
        # Where the store is slow, some of what they ask for has run out before they come to it.
        if reasons >= {"idle", "taken", "expired", "moved", "released"}:
            return
        any_server.call("FLUSHALL")
    pytest.fail(f"holds have ended in no other ways than {reasons}")


@pytest.mark.timeout(600)
async def test_versions_and_fences_grow_although_the_store_is_flushed_now_and_then(any_server, count):
    """One document, because FLUSHALL must not come between a step of another and its comparison."""
    wanted, fences = count(full=60, quick=6), set()
    for _ in range(10 * wanted):  # on a busy machine most steps of a walk_randomly come to nothing
        any_server.call("FLUSHALL")
        (one,) = await walk_randomly(
            any_server,
            documents=1,
            steps=count(full=60, quick=30),
            seed=random.randrange(10**6),
            forgetful=True,
        )
        fences |= {state.version.fence for state in one.seen}
        if len(fences) >= wanted:
            return
    pytest.fail(f"only {len(fences)} holds were seen")


PLANTED = {
    "a release of any tab": (
        "hold.user == user and hold.tab == tab\nif not is_own",
        "hold.user == user\nif not is_own",
    ),
    "a release of any fence": ("own_fence ~= hold.fence", "false"),
    "a move while it is marked": ("move == '0' or hold.taking", "move == '0'"),
    "a take before the time": ("hold.taking.until_ms <= now_ms then", "true then"),
    "a take of another call": ("hold.taking.ask == ask and hold.taking", "hold.taking"),
    "a mark that never lapses": ("marked_until(hold) <= now_ms", "false"),
    "a lapse that is no step": (
        "hold.taking, hold.step = nil, hold.step + 1\ntext",
        "hold.taking = nil\ntext",
    ),
    "a mark that is no step": ("hold.taking, hold.step = taker, hold.step + 1", "hold.taking = taker"),
    "a withdrawal by any caller": ("hold.taking.ask ~= ask then return {'gone'", "false then return {'gone'"),
    "a withdrawal of what was asked for again": ("if hold.ask ~= ask then hold.ask = nil end", ""),
    "a heartbeat that claims": ("if hold.unclaimed then return", "if false then return"),
    "a heartbeat of any tab": ("not hold or hold.user ~= user or hold.tab ~= tab", "not hold"),
    "an expiry while marked that frees it": ("hold and marked_until(hold) > now_ms", "false"),
    "a hand-over that forgets the save": (
        "end_or_hand_over(hold, reason, saved == '1')",
        "end_or_hand_over(hold, reason, false)",
    ),
    "a hand-over without a new fence": ("mint('0')", "tonumber(ended.fence)"),
    "an expiry without an event": ("publish('document_lock_expired', nil, nil, state_json())", ""),
    "a force-take of a later holder": ("expect_fence ~= hold.fence", "false"),
}


def plant(monkeypatch, old, new):
    """The scripts with ``new`` in the place of ``old``, wherever that is."""
    planted = 0
    for script in scripts.ALL:
        # Indentation is gone from what is searched for, so that it need not be repeated.
        lines = "\n".join(line.strip() for line in script.source.decode().splitlines())
        changed = lines.replace(old, new).encode()
        planted += changed != lines.encode()
        sha = hashlib.sha1(changed).hexdigest().encode()
        monkeypatch.setattr(scripts, script.name.upper(), replace(script, source=changed, sha=sha))
    assert planted, f"{old!r} is in no script"


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.timeout(600)
async def test_a_planted_bug_is_found(valkey, monkeypatch, bug):
    plant(monkeypatch, *PLANTED[bug])

    async def is_noticed(seed):
        valkey.call("FLUSHALL")
        noticed = False
        try:
            for one in await walk_randomly(valkey, documents=30, steps=40, seed=seed):
                one.check_events()
        except* AssertionError:  # by the comparison; a script that does not run fails otherwise
            noticed = True
        return noticed

    # Few at once, so that what they ask for does not run out while the others are served; and again until one of
    # them comes to where it shows.
    for seed in range(60):
        if await is_noticed(seed):
            return
    pytest.fail("no check failed")
