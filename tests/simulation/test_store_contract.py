"""The promises of every store, and of the model, about queues: the same behaviours on all of them."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.simulation.stores import STORES, open_world
from tests.support.eventually import LIMIT

from leasehold.core.replies import (
    DONE,
    Busy,
    Ended,
    Granted,
    LeaseKey,
    Refusal,
    Taken,
    TooLate,
)


@pytest.fixture(params=STORES)
async def world(request, servers):
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(8))
    async with open_world(request.param, servers) as opened:
        yield opened


@pytest.fixture
async def ann(world):
    return await world.connect()


@pytest.fixture
async def bob(world):
    return await world.connect()


def granted(letter):
    return lambda notification: isinstance(notification, Granted) and notification.ticket == ord(letter)


def taken(letter):
    return lambda notification: notification == Taken(ord(letter))


def is_grant(answer):
    return type(answer) is tuple


CLAIM_WINDOW = 2.0


async def judged_in_time(seconds, play):
    """Runs a round, on a lock of its own, until one took less than ``seconds``; only then its checks count.

    `play(name)` returns a function that checks its results. The server's clock does not wait for a busy machine, and
    after that time the store's reply would rightly differ.
    """
    for number in itertools.count():
        started_at = time.monotonic()
        check = await play(f"lock {number}")
        if time.monotonic() - started_at < seconds:
            check()
            return


async def test_a_free_lock_is_granted_for_its_whole_ttl(ann):
    fence, remaining, _ = await ann.ask("a", ttl=30)
    assert fence > 0
    assert remaining == 30


async def test_a_repeated_acquire_returns_the_same_lease(ann):
    first = await ann.ask("a", ttl=30)
    fence, remaining, _ = await ann.ask("a", ttl=60)
    assert fence == first[0]
    assert 20 < remaining <= 30


async def test_busy_names_the_holder(ann, bob):
    await ann.ask("a", ttl=30)
    first = await bob.ask("b")
    assert (first.position, 20 < first.remaining <= 30) == (1, True)
    busy = await bob.ask("c")
    assert isinstance(busy, Busy)
    assert (busy.holder, busy.mode, busy.waiters, busy.position) == ("a", "exclusive", 2, 2)
    assert 20 < busy.remaining <= 30
    assert busy.asked_at > busy.held_since - 1


async def test_a_repeated_acquire_keeps_the_place(ann, bob):
    await ann.ask("a")
    await ann.ask("b")
    await bob.ask("c")
    again = await ann.ask("b")
    assert again.position == 1


async def test_a_release_hands_over_to_the_first_and_notifies_it_alone(world, ann, bob):
    holding = await ann.ask("a")
    await bob.ask("b")
    await ann.ask("c")
    assert await ann.release("a", fence=holding[0]) is DONE
    await world.receives(bob, granted("b"))
    (notification,) = bob.notifications
    assert notification.fence > holding[0]
    assert notification.remaining == 2.0  # the window to claim it in
    assert ann.notifications == []


async def test_a_lease_shorter_than_the_window_is_handed_over_for_no_longer(world, ann, bob):
    await ann.ask("a")
    await bob.ask("b", ttl=1.5)
    await ann.release("a")
    await world.receives(bob, granted("b"))
    assert bob.notifications[0].remaining == 1.5


async def test_the_time_of_the_grant_is_on_the_same_clock_as_the_time_of_the_request(world, ann, bob):
    await ann.ask("a")
    busy = await bob.ask("b")
    await world.sleep(0.3)
    await ann.release("a")
    await world.receives(bob, granted("b"))
    assert 0.25 < bob.notifications[0].granted_at - busy.asked_at < LIMIT


async def test_a_repeated_acquire_claims_a_hand_over(ann, bob):
    await ann.ask("a")
    await bob.ask("b", ttl=30)
    await ann.release("a")
    fence, remaining, _ = await bob.ask("b", ttl=30)
    assert remaining == 30
    assert await bob.ask("b", ttl=60) <= (fence, 30, None)  # claimed once, not again


async def test_a_renewal_claims_a_hand_over_and_a_look_does_not(ann, bob):
    async def play(name):
        await ann.ask("a", name)
        await bob.ask("b", name, ttl=30)
        await ann.release("a", name)
        look = await bob.look("b", name=name)
        # "b" has lost its grant if the machine was so busy that its window is over.
        fence = look.places[0][0] if look.places[0] else 0
        renewal = await bob.renew("b", name, fence=fence)
        later = await bob.look("b", name=name)

        def check():
            assert look.places[0][1] <= CLAIM_WINDOW
            assert renewal is DONE
            assert later.remaining > 20

        return check

    await judged_in_time(CLAIM_WINDOW, play)


async def test_an_unclaimed_grant_goes_to_the_next(world, ann, bob):
    await ann.ask("a")
    await ann.ask("b", ttl=0.2)
    await bob.ask("c")
    await ann.release("a")
    await world.sleep(0.3)
    look = await bob.look("c")
    assert is_grant(look.places[0])
    await world.receives(bob, granted("c"))


async def test_a_check_tells_how_leases_have_ended_and_extends_none(world, ann, bob):
    held, _, _ = await ann.ask("a", "held", ttl=30)
    reader, _, _ = await ann.ask("r", "read", ttl=30, mode="shared")
    taken, _, _ = await ann.ask("t", "lock")
    await bob.take("u")
    short, _, _ = await ann.ask("s", "short", ttl=0.05)
    waited_for, _, _ = await ann.ask("w", "queue", ttl=30)
    await bob.ask("x", "queue")
    await world.sleep(0.1)
    keys = [("held", "a", held), ("read", "r", reader), ("lock", "t", taken), ("short", "s", short)]
    keys += [("queue", "w", waited_for), ("queue", "x", 0), ("none", "n", 1)]
    replies = await ann.do("check", [LeaseKey(name, letter * 32, fence) for name, letter, fence in keys])
    gone = Ended.EXPIRED
    assert replies == [DONE, DONE, Ended.TAKEN, gone, DONE, gone, gone]
    for name in ("held", "read", "queue"):
        assert (await ann.do("inspect", name)).remaining < 29.95


async def test_the_first_unclaimed_grant_of_a_client_drops_its_other_waiters(world, ann, bob):
    """A process that was killed with many waiters costs one claim window, not one for each of them."""
    names = ("gone", "readers", "polled")
    for name in names:
        mode = "shared" if name == "readers" else "exclusive"
        await bob.ask("a", name)
        await ann.ask("b", name, mode=mode)
        if mode == "shared":
            await bob.ask("w", name)  # between the readers, so that they are not granted together
        await ann.ask("c", name, mode=mode)
        await ann.ask("d", name)
        await bob.ask("e", name)
        await bob.release("a", name)
    await world.sleep(CLAIM_WINDOW + 0.1)
    look = await bob.look("w", name="readers")
    assert look.places[0][0] > 0
    await bob.release("w", "readers")
    # All waiters of a client that has not polled since are passed over.
    assert [(await bob.look("e", name=name)).places[0][0] > 0 for name in ("gone", "readers")] == [True, True]
    # One that is alive keeps the places of the others.
    assert (await ann.look("c", "d", name="polled")).places[0][0] > 0
    assert (await bob.look("e", name="polled")).places == [2]


async def test_no_newcomer_passes_the_queue_after_an_expiry(world, ann, bob):
    fence, _, _ = await ann.ask("a")
    await ann.ask("b")
    await ann.shorten("a", fence=fence, ttl=0.2)
    await world.sleep(0.3)
    newcomer = await bob.ask("n")
    assert isinstance(newcomer, Busy)
    assert newcomer.holder == "b"
    await world.receives(ann, granted("b"))


async def test_no_newcomer_passes_a_waiter_whose_client_tried_another_way(world, ann, bob):
    """A try without a wait counts its client as alive, so it must keep newcomers from passing as well."""
    live = 1.0
    quiet = await world.connect(live=live)

    async def play(name):
        fence, _, _ = await ann.ask("a", name)
        await quiet.ask("b", name)
        await world.sleep(0.6 * live)
        tried = await quiet.ask("t", name, wait=0)
        await ann.shorten("a", name, fence=fence, ttl=0.3 * live)
        await world.sleep(0.5 * live)  # the lease is over; the client of "b" still counts as alive
        newcomer = await bob.ask("n", name)

        def check():
            assert isinstance(tried, Busy)
            assert isinstance(newcomer, Busy)

        return check

    await judged_in_time(1.6 * live, play)


async def test_without_a_wait_the_token_does_not_join(ann, bob):
    await ann.ask("a")
    busy = await bob.ask("b", wait=0)
    assert (busy.position, busy.waiters) == (None, 0)


async def test_a_repeated_acquire_without_a_wait_leaves_the_queue(world, ann, bob):
    await ann.ask("a")
    await bob.ask("b")
    await ann.ask("c")
    assert (await bob.ask("b", wait=0)).position is None
    await ann.release("a")
    await world.receives(ann, granted("c"))
    assert bob.notifications == []


async def test_a_release_also_ends_waiting(ann, bob):
    await ann.ask("a")
    await bob.ask("b")
    await ann.ask("c")
    assert await bob.release("b") is Ended.EXPIRED
    assert (await ann.look("c")).places == [1]


async def test_a_waiter_past_its_deadline_is_skipped_by_the_queue(world, ann, bob):
    await ann.ask("a")
    await bob.ask("b", wait=0.1)
    await ann.ask("c")
    await world.sleep(0.2)
    await ann.release("a")
    await world.receives(ann, granted("c"))
    assert bob.notifications == []


async def test_a_waiter_that_does_not_poll_is_skipped(world, ann):
    unsubscribed = await world.connect(live=0.2)
    await ann.ask("a")
    await unsubscribed.ask("b")
    await ann.ask("c")
    await world.sleep(0.3)
    await ann.release("a")
    await world.receives(ann, granted("c"))
    assert unsubscribed.notifications == []


async def test_a_writer_that_missed_its_window_joins_at_the_end(world, ann, bob):
    async def play(name):
        await ann.ask("a", name)
        await bob.ask("b", name, ttl=0.2)
        await ann.ask("c", name)
        await ann.release("a", name)
        await world.sleep(0.3)
        again = await bob.ask("b", name)
        look = await bob.look("b", name=name)

        def check():
            assert isinstance(again, Busy)
            assert again.holder == "c"
            assert look.places == [1]

        return check

    await judged_in_time(CLAIM_WINDOW, play)


async def test_a_reader_that_missed_its_window_joins_at_the_end(world, ann, bob):
    await ann.ask("a", mode="shared")
    await bob.ask("b", mode="shared", ttl=0.2)
    await ann.ask("w")
    await world.sleep(0.3)
    again = await bob.ask("b", mode="shared")
    assert isinstance(again, Busy)
    assert again.position == 2
    await ann.release("w")
    await world.receives(bob, granted("b"))


async def test_a_reader_whose_lease_expired_can_acquire_again_while_others_read(world, ann, bob):
    await ann.ask("a", mode="shared")
    await bob.ask("b", mode="shared", ttl=0.2)
    await world.sleep(0.3)
    assert is_grant(await bob.ask("b", mode="shared"))


async def test_a_look_keeps_a_client_alive(world, ann):
    live = 1.0
    bob = await world.connect(live=live)

    async def play(name):
        bob.notifications.clear()
        await ann.ask("a", name)
        await bob.ask("b", name)
        for _ in range(2):
            await world.sleep(0.6 * live)
            await bob.look("b", name=name)
        await ann.release("a", name)
        holder = (await ann.inspect(name)).holds

        def check():
            assert [hold.holder for hold in holder] == ["b"]

        return check

    await judged_in_time(2 * live, play)


async def test_a_look_returns_the_state_of_each_waiter(ann, bob):
    fence, _, _ = await ann.ask("a", ttl=30)
    await bob.ask("b")
    await ann.ask("c")
    look = await ann.look("a", "c", "x")
    assert look.places[0][0] == fence
    assert look.places[1:] == [2, None]
    assert 20 < look.remaining <= 30


async def test_a_look_moves_the_queue_on(world, ann, bob):
    fence, _, _ = await ann.ask("a")
    await ann.ask("b")
    await bob.ask("c")
    await ann.shorten("a", fence=fence, ttl=0.2)
    await world.sleep(0.3)
    assert (await bob.look("c")).places == [1]
    await world.receives(ann, granted("b"))


async def test_readers_share(ann, bob):
    first = await ann.ask("a", mode="shared")
    second = await bob.ask("b", mode="shared")
    assert second[0] > first[0]
    busy = await bob.ask("w", wait=0)
    assert (busy.mode, busy.holder in {"a", "b"}) == ("shared", True)


async def test_a_queued_writer_goes_before_later_readers(world, ann, bob):
    await ann.ask("a", mode="shared")
    await bob.ask("w")
    late = await ann.ask("r", mode="shared")
    assert late.position == 2
    await ann.release("a")
    await world.receives(bob, granted("w"))
    assert ann.notifications == []


async def test_adjacent_readers_are_granted_together(world, ann, bob):
    await ann.ask("a")
    for letter in "rst":
        await bob.ask(letter, mode="shared")
    await ann.ask("w")
    await bob.ask("u", mode="shared")
    await ann.release("a")
    await world.receives(bob, granted("r"), granted("s"), granted("t"))
    assert [notification.fence for notification in bob.notifications] == sorted(
        {notification.fence for notification in bob.notifications}
    )


async def test_the_release_of_the_last_reader_grants_to_the_writer(world, ann, bob):
    await ann.ask("r", mode="shared")
    await ann.ask("s", mode="shared")
    await bob.ask("w")
    assert await ann.release("r") is DONE
    assert (await bob.look("w")).places == [1]
    assert await ann.release("s") is DONE
    await world.receives(bob, granted("w"))


async def test_a_writer_that_gives_up_lets_the_readers_behind_it_read(world, ann, bob):
    await ann.ask("a", mode="shared")
    await bob.ask("w")
    await ann.ask("r", mode="shared")
    await bob.ask("w", wait=0)
    look = await ann.look("r")
    assert is_grant(look.places[0])


async def test_a_repeated_acquire_of_several_locks_returns_them_when_another_waits_for_one(ann, bob):
    """The reply to the first request may have been lost, and a waiter has joined since."""
    grants = await ann.ask_for_all("a", "lock", "other")
    await bob.ask("b", "other")
    again = await ann.ask_for_all("a", "lock", "other")
    assert [grant[0] for grant in again] == [grant[0] for grant in grants]


async def test_a_take_ends_every_lease_and_notifies_each_holder(world, ann, bob):
    first = await ann.ask("r", mode="shared")
    second = await bob.ask("s", mode="shared")
    fence, remaining, _ = await bob.take("t", ttl=30)
    assert (fence > second[0], remaining) == (True, 30)
    await world.receives(ann, taken("r"))
    await world.receives(bob, taken("s"))
    assert await ann.renew("r", fence=first[0]) is Ended.TAKEN
    assert await bob.release("s", fence=second[0]) is Ended.TAKEN


async def test_a_waiter_goes_on_waiting_after_a_take(world, ann, bob):
    await ann.ask("a")
    await bob.ask("b")
    await ann.take("t")
    assert (await bob.look("b")).places == [1]
    await ann.release("t")
    await world.receives(bob, granted("b"))


async def test_a_take_can_expect_a_holder(ann, bob):
    fence, _, _ = await ann.ask("a")
    assert await bob.take("t", expect_fence=fence - 1) == Refusal(fence, "a")
    taken_fence, _, _ = await bob.take("t", expect_fence=fence)
    assert taken_fence > fence
    assert (await bob.take("t", expect_fence=1))[0] == taken_fence  # repeated: it already holds the lock
    assert await ann.take("u", expect_fence=fence) == Refusal(taken_fence, "t")


async def test_an_expired_lease_is_distinguished_from_a_taken_one(world, ann):
    fence, _, _ = await ann.ask("a", ttl=0.1)
    await world.sleep(0.2)
    assert await ann.renew("a", fence=fence) is Ended.EXPIRED
    assert await ann.release("a", fence=fence) is Ended.EXPIRED


async def test_a_renewal_never_creates_a_lease(world, ann, bob):
    fence, _, _ = await ann.ask("a", ttl=0.1)
    await world.sleep(0.2)
    await ann.renew("a", fence=fence)
    assert is_grant(await bob.ask("b", wait=0))


async def test_a_token_cannot_end_or_extend_another_lease(ann, bob):
    fence, _, receipt = await ann.ask("a", ttl=30)
    assert await bob.release("b", fence=fence) is Ended.EXPIRED
    assert await bob.renew("b", fence=fence, ttl=60) is Ended.EXPIRED
    assert (await bob.look("b")).remaining <= 30
    assert await ann.release("a", fence=fence, receipt=receipt) is DONE


async def test_fences_grow_with_every_kind_of_grant(world, ann, bob):
    fences = [(await ann.ask("a"))[0]]
    await bob.ask("b")
    await ann.release("a")
    fences.append((await bob.ask("b"))[0])
    fences.append((await ann.take("t"))[0])
    await ann.release("t")
    fences.append((await ann.ask("r", mode="shared", ttl=0.1))[0])
    await world.sleep(0.2)
    fences.append((await bob.ask("x"))[0])
    assert fences == sorted(set(fences))


async def test_several_locks_come_all_or_none(ann, bob):
    grants = await ann.ask_for_all("a", "lock", "other", ttl=30)
    assert [remaining for _, remaining, _ in grants] == [30, 30]
    again = await ann.ask_for_all("a", "lock", "other", ttl=30)
    assert [grant[0] for grant in again] == [grant[0] for grant in grants]
    assert await bob.ask_for_all("b", "third", "other") == "other"
    assert is_grant(await bob.ask("c", "third", wait=0))


LATE = 5.0
"""Seconds since a request was to be done at the latest; more than two clocks can differ by here."""


@pytest.mark.parametrize("rival", [None, "exclusive", "shared"])
@pytest.mark.parametrize("mode", ["exclusive", "shared"])
async def test_a_renewal_never_shortens_a_lease_so_it_may_come_late(ann, bob, mode, rival):
    """It was asked for before the last one, and lost with its connection."""
    fence, _, _ = await ann.ask("a", mode=mode, ttl=30)
    if rival is not None:
        await bob.ask("b", mode=rival)
    assert await ann.renew("a", fence=fence, ttl=60) is DONE
    assert await ann.renew("a", fence=fence, ttl=2) is DONE
    assert (await ann.look("a")).places[0][1] > 30


@pytest.mark.parametrize("rival", [None, "exclusive", "shared"])
@pytest.mark.parametrize("mode", ["exclusive", "shared"])
async def test_a_lease_is_shortened_unless_the_request_comes_too_late(ann, bob, mode, rival):
    fence, _, _ = await ann.ask("a", mode=mode, ttl=60)
    if rival is not None:
        await bob.ask("b", mode=rival)
    with pytest.raises(TooLate):
        await ann.shorten("a", fence=fence, ttl=10, late_by=LATE)
    assert (await ann.look("a")).places[0][1] > 20
    assert await ann.shorten("a", fence=fence, ttl=10) is DONE
    assert 0 < (await ann.look("a")).places[0][1] <= 10


async def test_what_a_late_request_got_after_the_lease_was_lost_is_neither_extended_nor_found_held(ann, bob):
    """The lease was taken, its client has not noticed, the taker has released, and an old acquire is delivered."""
    first, _, _ = await ann.ask("a", ttl=30)
    taker, _, _ = await bob.take("t", ttl=30)
    await bob.release("t", fence=taker)
    again, _, _ = await ann.ask("a", ttl=20)
    assert again > taker > first
    assert await ann.renew("a", fence=first, ttl=30) is Ended.TAKEN
    assert await ann.shorten("a", fence=first, ttl=10) is Ended.TAKEN
    keys = [LeaseKey("lock", "a" * 32, fence) for fence in (first, again)]
    assert await ann.do("check", keys) == [Ended.TAKEN, DONE]
    assert 10 < (await ann.look("a")).places[0][1] <= 20
    assert await ann.renew("a", fence=again, ttl=30) is DONE
    await bob.ask("b")
    assert await ann.renew("a", fence=first, ttl=60) is Ended.TAKEN
    assert (await ann.look("a")).places[0][1] <= 30


async def test_shortening_touches_only_ones_own_lease_and_brings_none_back(ann, bob):
    fence, _, _ = await ann.ask("a", ttl=30)
    assert await bob.shorten("b", fence=fence, ttl=10) is Ended.EXPIRED
    taker, _, _ = await bob.take("t", ttl=30)
    assert await ann.shorten("a", fence=fence, ttl=10) is Ended.TAKEN
    assert await bob.shorten("t", fence=taker, ttl=10) is DONE
    await bob.release("t", fence=taker)
    assert await bob.shorten("t", fence=taker, ttl=10) is Ended.EXPIRED
    assert not (await ann.inspect()).is_held


async def test_a_take_that_comes_too_late_takes_nothing(ann, bob):
    """It was asked again, granted and released since, and another client has the lock."""
    taken_before, _, _ = await bob.take("t")
    await bob.release("t", fence=taken_before)
    held, _, _ = await ann.ask("a", ttl=30)
    with pytest.raises(TooLate):
        await bob.take("t", late_by=LATE)
    info = await ann.inspect()
    assert (info.fence, info.holder) == (held, "a")
    assert ann.notifications == []


async def test_several_locks_asked_for_too_late_are_not_granted(ann):
    grants = await ann.ask_for_all("a", "lock", "other")
    for name, (fence, _, _) in zip(("lock", "other"), grants, strict=True):
        await ann.release("a", name, fence=fence)
    with pytest.raises(TooLate):
        await ann.ask_for_all("a", "lock", "other", late_by=LATE)
    assert not (await ann.inspect("lock")).is_held
    assert not (await ann.inspect("other")).is_held


async def test_the_reply_to_a_late_request_has_the_clock_of_the_store(ann):
    """So a client whose idea of that clock is wrong, because it was set, has the next request done."""
    server_clock = await ann.server_clock()
    server_clock.read(server_clock.to_ms(ann.now()) - 1_000_000)
    with pytest.raises(TooLate):
        await ann.take("t")
    assert is_grant(await ann.take("t"))


async def test_the_holder_and_the_number_of_waiters_are_public(world, ann):
    unsubscribed = await world.connect(live=0.2)
    await ann.ask("r", mode="shared", ttl=30)
    fence, _, _ = await ann.ask("s", mode="shared", ttl=60)
    await ann.ask("w")
    assert (await unsubscribed.ask("x")).waiters == 2
    await world.sleep(0.3)
    info = await ann.inspect()
    assert (info.mode, info.fence, info.waiters) == ("shared", fence, 1)
    assert [hold.holder for hold in info.holds] == ["r", "s"]


async def test_locks_that_are_held_are_listed(ann):
    await ann.ask("a", "listed 1")
    await ann.ask("b", "listed 2", ttl=30)
    await ann.ask("c", "other")
    cursor, found = 0, {}
    while True:
        cursor, infos = await ann.do("page", "listed *", cursor)
        found.update({info.name: info.holder for info in infos})
        if not cursor:
            break
    assert found == {"listed 1": "a", "listed 2": "b"}
