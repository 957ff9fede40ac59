"""`python -m bench.hand_over.process CONTESTANT URL FIRST STOP`: one process with the waiters FIRST up to STOP.

Reads schedules from stdin and writes the holds of each to stdout, as lines of JSON. Ends with its stdin, and so with
its parent, however that ends.
"""

import asyncio
import gc
import json
import logging
import os
import sys
import threading
from typing import Any

import uvloop

from bench.hand_over.holds import Schedule
from bench.hand_over.waiters import WAITERS


async def main(contestant: str, url: str, waiters: range) -> None:
    schedules: asyncio.Queue[Schedule] = asyncio.Queue()
    threading.Thread(target=_listen, args=(asyncio.get_running_loop(), schedules), daemon=True).start()
    try:
        async with WAITERS[contestant](url) as work:
            _answer({"is_ready": True})
            while True:
                schedule = await schedules.get()
                gc.collect()  # the garbage of the previous round is not charged to this one
                _answer({"holds": await work(waiters, schedule)})
    except Exception as error:  # noqa: BLE001  the parent reports the contestant and the error
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        _answer({"error": type(cause).__name__, "text": str(cause)})


def _listen(loop: asyncio.AbstractEventLoop, schedules: asyncio.Queue[Schedule]) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(schedules.put_nowait, Schedule(*json.loads(line)))
    os._exit(0)  # at once, although waiters are running


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    # The library warns about a server without persistence, which is intended here.
    logging.getLogger("leasehold").setLevel(logging.ERROR)
    name, address, first, stop = sys.argv[1:]
    uvloop.run(main(name, address, range(int(first), int(stop))))
