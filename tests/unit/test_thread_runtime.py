"""The ports for threads."""

from __future__ import annotations

import threading

from tests.support.eventually import LIMIT

from leasehold.core.sync_runner import run_sync
from leasehold.runtime.thread_runtime import ThreadConcurrency, ThreadSignal


def test_background_work_begins_also_when_the_last_thread_that_can_be_started_is_its_starter(monkeypatch):
    """Otherwise a client would count on renewals that are never sent."""

    def no_more_threads(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more_threads)
    has_begun = ThreadSignal()

    async def work():
        has_begun.set()

    ThreadConcurrency().background(work)
    assert run_sync(has_begun.wait(LIMIT))
