"""`python -m bench.hand_over.process CONTESTANT URL FIRST STOP`: one process with the waiters FIRST up to STOP.

Shifts come in on stdin and the holds of each go out on stdout, as lines of JSON. Ends with its stdin, and so
with its parent, however that one ends.
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

from bench.hand_over.holds import Shift
from bench.hand_over.waiters import WAITERS


async def main(contestant: str, url: str, waiters: range) -> None:
    shifts: asyncio.Queue[Shift] = asyncio.Queue()
    threading.Thread(target=_listen, args=(asyncio.get_running_loop(), shifts), daemon=True).start()
    try:
        async with WAITERS[contestant](url) as work:
            _answer({"is_ready": True})
            while True:
                shift = await shifts.get()
                gc.collect()  # what the shift before left behind is not charged to this one
                _answer({"holds": await work(waiters, shift)})
    except Exception as error:  # noqa: BLE001  the parent says which contestant failed, and how
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        _answer({"error": type(cause).__name__, "text": str(cause)})


def _listen(loop: asyncio.AbstractEventLoop, shifts: asyncio.Queue[Shift]) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(shifts.put_nowait, Shift(*json.loads(line)))
    os._exit(0)  # from whatever the waiters are doing


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    # The library rightly warns about a server without persistence; here that is the plan.
    logging.getLogger("leasehold").setLevel(logging.ERROR)
    name, address, first, stop = sys.argv[1:]
    uvloop.run(main(name, address, range(int(first), int(stop))))
