"""Concurrent editors who use every verb."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from tests.documents.cancellation import give_up
from tests.documents.consistency import Grant, Record, violations
from tests.documents.host import DictStore
from tests.documents.test_locks_model import plant
from tests.support.eventually import eventually_async

import leasehold
from leasehold.documents import DocumentLocks, Editor, Granted, Save, Saved, Times

TIMES = Times(ttl=0.5, heartbeat=0.1, save_within=0.05)
PEOPLE = [Editor(f"user-{n}", f"User {n}", f"tab-{tab}") for n in range(4) for tab in (1, 2)]


async def edit(locks, host, editor, record, seed, rounds):
    """One tab: gets the lock in some way, saves, beats, loses or releases it."""
    rng = random.Random(f"{seed} {editor}")
    for number in range(rounds):
        await asyncio.sleep(rng.choice([0, 0, 0.001, 0.01]))
        asked_at = time.monotonic()
        match rng.choice(["acquire", "acquire", "move", "take"]):
            case "acquire":
                outcome = await locks.acquire("doc", editor)
            case "move":
                outcome = await locks.acquire("doc", editor, move=True)
            case _:
                outcome = await locks.force_take("doc", editor)
        if not isinstance(outcome, Granted):
            continue
        record.grants.append(Grant(outcome, asked_at, time.monotonic()))
        version = outcome.content_version
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(rng.choice([0, 0.001, 0.02, 0.06]))
            match rng.choice(["heartbeat", "save", "save", "yield", "release", "cancel"]):
                case "heartbeat":
                    await locks.heartbeat("doc", editor, idle_for=1)
                case "save" | "yield" as way:
                    content = f"{editor.user_id} {editor.tab} {number} {rng.random()}"
                    save = Save("doc", editor, content, version, outcome.fence)
                    answer = await locks.save(save, release=way == "yield")
                    record.saves.append((save, answer))
                    if way == "yield":
                        record.yields.append(save)
                    if isinstance(answer.outcome, Saved):
                        version = answer.outcome.version
                case "release":
                    await locks.release("doc", editor)
                case _:
                    taking = asyncio.create_task(locks.force_take("doc", editor))
                    await asyncio.sleep(rng.choice([0, 0.001, 0.02]))
                    await give_up(taking)
        if rng.random() < 0.7:
            await locks.release("doc", editor)


async def race(server, *, host=None, rounds, seed):
    """Runs all editors on one document, through two workers; returns their outcomes, and the final state."""
    host = host or DictStore("doc")
    record = Record()
    async with leasehold.connect(server.url) as one, leasehold.connect(server.url) as other:
        workers = [DocumentLocks(client, host, times=TIMES) for client in (one, other)]
        async with asyncio.TaskGroup() as together:
            for number, editor in enumerate(PEOPLE):
                together.create_task(edit(workers[number % 2], host, editor, record, seed, rounds))
        history = await workers[0].history("doc", limit=200)
        stranger = Editor("user-x", "X")

        async def is_usable():
            return isinstance(await workers[0].acquire("doc", stranger), Granted)

        await eventually_async(is_usable)
    return record, history, host["doc"]


@pytest.mark.timeout(600)
async def test_every_promise_holds_under_concurrent_editors(any_server, count):
    seed = random.randrange(10**6)
    record, history, document = await race(any_server, rounds=count(full=400, quick=25), seed=seed)
    assert violations(record, history, document) == set(), f"seed {seed}"
    assert len(history) > 5


class Forgetful(DictStore):
    """Does not record grants."""

    async def register(self, grant):
        return self["doc"].version


class Trusting(DictStore):
    """Accepts every save."""

    def _keep(self, document, save):
        document.versions.append(save.content)
        return Saved(document.version)


class Overwriting(DictStore):
    """Keeps only the newest draft."""

    def _rescue(self, document, save, reason):
        document.drafts.clear()
        return super()._rescue(document, save, reason)


async def take_turns(server, host):
    """One after another, everything that the promises are about: they are broken here if they are broken at all."""
    ana, ana_elsewhere, olga, _, paul = PEOPLE[:5]
    record = Record()
    async with leasehold.connect(server.url) as client:
        locks = DocumentLocks(client, host, times=Times(ttl=60, heartbeat=10, save_within=0.2))
        patient = DocumentLocks(client, host, times=Times(ttl=60, heartbeat=10, save_within=30))

        async def get(work):
            asked_at = time.monotonic()
            granted = await work
            assert isinstance(granted, Granted)
            record.grants.append(Grant(granted, asked_at, time.monotonic()))
            return granted

        async def is_marked():
            return (await locks.state("doc")).taking is not None

        async def save(editor, granted, content, *, release=False):
            work = Save("doc", editor, content, granted.content_version, granted.fence)
            record.saves.append((work, await locks.save(work, release=release)))
            if release:
                record.yields.append(work)

        first = await get(locks.acquire("doc", ana))
        await save(ana, first, "the first words")
        moved = await get(locks.acquire("doc", ana_elsewhere, move=True))
        taken = await get(locks.force_take("doc", olga))
        for words in ("late words", "later words"):
            await save(ana_elsewhere, moved, words)
        await save(olga, taken, "more words")
        taking = asyncio.create_task(get(patient.force_take("doc", paul)))
        await eventually_async(is_marked)
        await locks.release("doc", olga)
        await save(paul, await taking, "the last words", release=True)
        return record, await locks.history("doc", limit=200), host["doc"]


async def test_kept_promises_raise_no_alarm(valkey):
    record, history, document = await take_turns(valkey, DictStore("doc"))
    assert violations(record, history, document) == set()
    assert document.versions == ["", "the first words", "more words", "the last words"]
    assert len(document.drafts) == 2


@pytest.mark.parametrize(
    ("host", "promise"),
    [(Trusting, "an old fence saves nothing"), (Overwriting, "no acknowledged save vanishes")],
    ids=["trusting", "overwriting"],
)
async def test_a_host_that_breaks_its_promises_is_found(valkey, host, promise):
    assert promise in violations(*await take_turns(valkey, host("doc")))


async def test_a_host_that_registers_nothing_saves_nothing(valkey):
    """Then no work is lost, but all of it becomes drafts."""
    record, history, document = await race(valkey, host=Forgetful("doc"), rounds=5, seed=1)
    assert violations(record, history, document) == set()
    assert document.versions == [""]
    assert record.saves


@pytest.mark.parametrize(
    ("bug", "promise"),
    [
        (("mint('0')", "tonumber(ended.fence)"), "fences grow"),
        (("hand_over(hold, saved)", "hand_over(hold, true)"), "saved means saved"),
        (("end_hold(hold, 'moved', now_ms, hold)", ""), "one holder at a time"),
    ],
    ids=["fence", "saved", "moved"],
)
async def test_a_script_that_breaks_its_promises_is_found(valkey, monkeypatch, bug, promise):
    plant(monkeypatch, *bug)
    assert promise in violations(*await take_turns(valkey, DictStore("doc")))
