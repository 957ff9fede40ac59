"""The timer queue (items that are due, each at its time) and the pauses between tries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.virtual_world import VirtualSignal

from leasehold.core.backoff import Backoff
from leasehold.core.timer_queue import TimerQueue


class CountingSignal(VirtualSignal):
    """Notes how often it rang."""

    def __init__(self, world):
        super().__init__(world)
        self.rings = 0

    def set(self):
        self.rings += 1
        super().set()


@pytest.fixture
def alarm(world):
    return CountingSignal(world)


@pytest.fixture
def dead():
    """What was overtaken by events."""
    return set()


@pytest.fixture
def timer_queue(world, alarm, dead):
    return TimerQueue(world, alarm, is_live=lambda _when, item: item not in dead, slack=0.02)


def test_items_come_in_the_order_of_their_times(world, timer_queue):
    for when in (1_003, 1_001, 1_002):
        timer_queue.put(when, f"at {when}")
    seen = [(world.run(timer_queue.due()), world.now()) for _ in range(3)]
    assert seen == [(["at 1001"], 1_001), (["at 1002"], 1_002), (["at 1003"], 1_003)]


def test_items_of_the_same_time_come_in_the_order_they_were_put(world, timer_queue):
    for item in "abc":
        timer_queue.put(1_001, item)
    assert world.run(timer_queue.due()) == ["a", "b", "c"]


def test_items_need_not_be_comparable(world, timer_queue, dead):
    timer_queue._is_live = lambda _when, _item: True
    timer_queue.put(1_001, {"a": 1})
    timer_queue.put(1_001, {"b": 2})
    assert world.run(timer_queue.due()) == [{"a": 1}, {"b": 2}]


def test_what_is_overdue_comes_at_once(world, timer_queue):
    timer_queue.put(5, "old")
    assert world.run(timer_queue.due()) == ["old"]
    assert world.now() == 1_000


def test_items_within_the_slack_come_together(world, timer_queue):
    timer_queue.put(1_001, "a")
    timer_queue.put(1_001.019, "b")
    timer_queue.put(1_001.03, "c")
    assert world.run(timer_queue.due()) == ["a", "b"]
    assert world.now() == 1_001
    assert world.run(timer_queue.due()) == ["c"]


def test_an_earlier_item_wakes_the_reader(world, timer_queue):
    timer_queue.put(1_100, "late")
    reading = world.start(timer_queue.due())
    world.advance(1)
    timer_queue.put(1_005, "early")
    world.advance(4)
    assert reading.is_done
    assert reading.result == ["early"]
    assert world.now() == 1_005


def test_a_first_item_wakes_a_reader_that_had_nothing_to_wait_for(world, timer_queue):
    reading = world.start(timer_queue.due())
    world.advance(1)
    timer_queue.put(1_001, "first")
    world.settle()
    assert reading.result == ["first"]


def test_a_later_item_does_not_wake_the_reader(world, timer_queue, alarm):
    timer_queue.put(1_005, "early")
    reading = world.start(timer_queue.due())
    world.advance(1)
    alarm.rings = 0
    for number in range(100):
        timer_queue.put(1_050 + number, "later")
    assert alarm.rings == 0
    world.advance(4)
    assert reading.result == ["early"]


def test_an_item_put_while_the_reader_looks_is_not_missed(world, alarm):
    """The moment between reading the inbox and going to sleep: whatever is put then must ring."""
    timer_queue = TimerQueue(world, alarm, is_live=lambda _when, _item: True)
    now = world.now
    put_late = iter([True])

    class Clock:
        def now(self):
            if next(put_late, False):
                timer_queue.put(1_001, "just now")
            return now()

    timer_queue._clock = Clock()
    reading = world.start(timer_queue.due())
    world.advance(1)
    assert reading.is_done
    assert reading.result == ["just now"]


def test_overtaken_items_are_not_handed_out(world, timer_queue, dead):
    timer_queue.put(1_001, "dead")
    timer_queue.put(1_001, "live")
    reading = world.start(timer_queue.due())
    world.settle()
    dead.add("dead")
    world.advance(1)
    assert reading.result == ["live"]


def test_when_all_that_is_due_was_overtaken_the_reader_waits_on(world, timer_queue, dead):
    """An empty list means stopped; a reader that gets one goes home for good."""
    timer_queue.put(1_001, "dead")
    timer_queue.put(1_005, "live")
    reading = world.start(timer_queue.due())
    world.settle()
    dead.add("dead")
    world.advance(2)
    assert not reading.is_done
    world.advance(3)
    assert reading.result == ["live"]


def test_overtaken_items_are_swept_so_that_memory_stays_bounded(world, timer_queue, dead):
    reading = world.start(timer_queue.due())
    world.settle()
    for number in range(20_000):
        timer_queue.put(5_000, number)
        dead.add(number)  # a short hold, which ends long before the next look
    world.settle()
    assert len(timer_queue._heap) + len(timer_queue._inbox) < 4_096
    timer_queue.put(1_001, "live")
    world.advance(1)
    assert reading.result == ["live"]


def test_items_that_die_after_they_were_read_are_swept_too(world, timer_queue, dead):
    world.start(timer_queue.due())
    world.settle()
    for number in range(20_000):
        timer_queue.put(5_000, number)
        world.settle()
        dead.add(number)
    assert len(timer_queue._heap) + len(timer_queue._inbox) < 4_096


def test_stopping_wakes_the_reader_with_nothing(world, timer_queue):
    reading = world.start(timer_queue.due())
    world.advance(1)
    timer_queue.stop()
    world.settle()
    assert reading.is_done
    assert reading.result == []


def test_a_stopped_agenda_hands_out_nothing(world, timer_queue):
    timer_queue.put(5, "overdue")
    timer_queue.stop()
    assert world.run(timer_queue.due()) == []


# Backoff


@given(
    st.floats(0.001, 1),
    st.floats(1, 60),
    st.integers(1, 100_000),
    st.floats(0, 1, exclude_max=True),
)
def test_a_pause_is_never_above_the_cap_and_never_below_half_of_it(first, cap, tries, fraction):
    full = min(cap, first * 2.0 ** min(tries - 1, 64))
    pause = Backoff(first=first, cap=cap).pause(tries, fraction)
    assert full / 2 <= pause <= full


def test_pauses_double_up_to_the_cap():
    backoff = Backoff(first=0.01, cap=0.05)
    assert [backoff.pause(tries, 0) for tries in range(1, 6)] == pytest.approx(
        [0.005, 0.01, 0.02, 0.025, 0.025]
    )


def test_pauses_are_spread_so_that_callers_do_not_come_back_together():
    backoff = Backoff(first=0.01, cap=0.05)
    assert len({backoff.pause(9, fraction / 10) for fraction in range(10)}) == 10
