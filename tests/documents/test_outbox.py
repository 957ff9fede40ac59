"""An outbox sends at once while its socket reads, the newest state when it does not, and is limited."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.eventually import eventually_async

from leasehold.documents.live.limits import SocketLimits
from leasehold.documents.live.outbox import Outbox, step

LIMITS = SocketLimits(unread_replies=3, unread_bytes=1000, drain_within=60)


class Peer:
    """The other side. While it is not `reading`, messages to it wait, as with uvicorn."""

    def __init__(self, limits: SocketLimits = LIMITS) -> None:
        self.got: list[str] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.is_gone = False
        self.fell_behind = 0
        self.outbox = Outbox(self.send, limits, self._fall_behind)

    async def send(self, message) -> None:
        await self.reading.wait()
        if self.is_gone:
            raise ConnectionResetError
        assert message["type"] == "websocket.send"
        self.got.append(message["text"])

    def _fall_behind(self) -> None:
        self.fell_behind += 1

    async def has(self, *texts: str) -> None:
        await eventually_async(lambda: self.got == list(texts))


def other_tasks() -> set[asyncio.Task]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_socket_that_reads_gets_messages_at_once_and_without_a_task() -> None:
    peer = Peer()
    peer.outbox.reply("one")
    peer.outbox.publish("doc", "two")
    peer.outbox.publish("doc", "three")
    assert peer.got == ["one", "two", "three"]
    assert not other_tasks()


async def test_of_each_document_a_slow_socket_gets_the_newest_state_only() -> None:
    peer = Peer()
    peer.reading.clear()
    peer.outbox.publish("doc", "on its way")
    for number in range(1000):
        peer.outbox.publish("doc", f"doc {number}")
        peer.outbox.publish("other", f"other {number}")
    assert len(other_tasks()) == 1
    peer.reading.set()
    await peer.has("on its way", "doc 999", "other 999")
    await eventually_async(lambda: not other_tasks())
    peer.outbox.publish("doc", "and on")
    assert peer.got[-1] == "and on"


async def test_answers_keep_their_order_and_come_before_states() -> None:
    peer = Peer()
    peer.reading.clear()
    peer.outbox.reply("first")
    peer.outbox.publish("doc", "state")
    for text in ("second", "third"):
        peer.outbox.reply(text)
    peer.reading.set()
    await peer.has("first", "second", "third", "state")


async def test_a_forgotten_topic_is_not_sent() -> None:
    peer = Peer()
    peer.reading.clear()
    peer.outbox.reply("first")
    peer.outbox.publish("doc", "state")
    peer.outbox.publish("other", "other")
    peer.outbox.forget("doc")
    peer.outbox.forget("unknown topic")
    peer.reading.set()
    await peer.has("first", "other")


async def test_too_many_unread_replies_end_the_socket() -> None:
    peer = Peer()
    peer.reading.clear()
    for number in range(20):
        peer.outbox.reply(str(number))
    assert peer.fell_behind == 1
    peer.outbox.close()
    await eventually_async(lambda: not other_tasks())
    assert peer.got == []


async def test_too_large_unread_replies_end_the_socket() -> None:
    peer = Peer()
    peer.reading.clear()
    peer.outbox.reply("on its way")
    peer.outbox.reply("x" * 500)
    assert peer.fell_behind == 0
    peer.outbox.reply("x" * 501)
    assert peer.fell_behind == 1
    peer.outbox.close()


async def test_replies_that_were_read_do_not_count() -> None:
    peer = Peer()
    for _ in range(5):
        peer.reading.clear()
        for size in (500, 400, 400):
            peer.outbox.reply("x" * size)
        peer.reading.set()
        await eventually_async(lambda: not peer.outbox.is_blocked)
    assert peer.fell_behind == 0
    assert len(peer.got) == 15


async def test_not_reading_for_too_long_ends_the_socket() -> None:
    peer = Peer(SocketLimits(drain_within=0.05))
    peer.reading.clear()
    peer.outbox.publish("doc", "state")
    await eventually_async(lambda: peer.fell_behind)
    peer.outbox.publish("doc", "too late")
    peer.outbox.reply("too late")
    peer.reading.set()
    await eventually_async(lambda: not other_tasks())
    assert peer.got == []
    assert peer.fell_behind == 1


async def test_a_peer_that_is_gone_gets_nothing_more_and_raises_no_error() -> None:
    peer = Peer()
    peer.is_gone = True
    peer.outbox.publish("doc", "state")
    peer.is_gone = False
    peer.outbox.publish("doc", "state")
    peer.outbox.reply("answer")
    assert peer.got == []
    assert peer.fell_behind == 0


async def test_a_peer_that_leaves_while_slow_gets_nothing_more() -> None:
    peer = Peer()
    peer.reading.clear()
    peer.outbox.reply("first")
    peer.outbox.reply("second")
    peer.is_gone = True
    peer.reading.set()
    await eventually_async(lambda: not other_tasks())
    assert (peer.got, peer.fell_behind) == ([], 0)


async def test_after_the_close_nothing_is_sent() -> None:
    peer = Peer()
    peer.reading.clear()
    peer.outbox.reply("on its way")
    peer.outbox.publish("doc", "state")
    peer.outbox.close()
    peer.reading.set()
    await eventually_async(lambda: not other_tasks())
    peer.outbox.reply("later")
    assert peer.got == []


async def test_one_step_is_all_that_a_coroutine_needs_that_does_not_wait() -> None:
    done = []

    async def work() -> None:
        done.append(True)

    assert step(work()) is None
    assert done


async def test_the_rest_of_a_coroutine_runs_as_if_it_had_been_a_task_from_the_beginning() -> None:
    steps = []

    async def work() -> None:
        steps.append("begun")
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            steps.append("going on")
            await asyncio.sleep(0)
        steps.append("done")

    remains = step(work())
    assert steps == ["begun"]
    await remains
    assert steps == ["begun", "going on", "done"]


async def test_an_exception_of_a_coroutine_is_raised_in_either_part() -> None:
    async def work(*, at_once: bool) -> None:
        if not at_once:
            await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        step(work(at_once=True))
    remains = step(work(at_once=False))
    with pytest.raises(LookupError):
        await remains


async def test_a_cancelled_task_cancels_the_rest_of_its_coroutine() -> None:
    seen = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            raise

    async def rest(remains) -> None:
        await remains

    task = asyncio.create_task(rest(step(work())))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]
