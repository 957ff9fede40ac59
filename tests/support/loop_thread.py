"""An event loop in a thread of its own, so that blocking and async tests can use what runs in it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.eventually import LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class LoopThread:
    """Runs until `close`, which cancels what is left."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], within: float = LIMIT) -> T:
        """Run the coroutine in the loop and wait for its answer."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(within)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call the function in the loop's thread and wait for its answer."""

        async def work() -> T:
            return function(*args)

        return self.run(work())

    def close(self) -> None:
        if self.loop.is_closed():
            return
        self.run(self._cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    @staticmethod
    async def _cancel_all() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
