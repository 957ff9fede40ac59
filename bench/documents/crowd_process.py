"""`python -m bench.documents.crowd_process`: a crowd in a process of its own.

Lines of JSON come in on stdin and go out on stdout. The first says where to and with which lines; every other one
says how many arrivals to wait for. Answered at once, and again with the instants when they are there. Ends with
its stdin, and so with its parent.
"""

import gc
import json
import os
import select
import sys
import time
from typing import Any

from bench.documents.crowd import Crowd, Member

PATIENCE = 10.0


def main() -> None:
    stdin = sys.stdin.buffer.raw  # unbuffered: what is not read yet must be seen by poll
    order = json.loads(stdin.readline())
    arrivals: list[float] = []
    expected, deadline = 0, 0.0

    def hear(_member: Member, _text: bytes) -> None:
        arrivals.append(time.monotonic())

    crowd = Crowd(order["port"], order["path"], hear)
    scripts = order["scripts"]
    crowd.gather([scripts[number % len(scripts)] for number in range(order["count"])])
    gc.collect()
    gc.disable()  # nothing here is garbage, and a collection would be charged to whoever is measured
    _answer({"gathered": order["count"]})

    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(crowd, select.POLLIN)
    while True:
        for fd, _ in poll.poll(100):
            if fd != 0:
                crowd.pump(0)
                continue
            line = stdin.readline()
            if not line:
                os._exit(0)
            expected, deadline = json.loads(line), time.monotonic() + PATIENCE
            arrivals.clear()
            _answer({"is_listening": True})
        if expected and (len(arrivals) >= expected or time.monotonic() > deadline):
            _answer({"arrivals": arrivals})
            expected = 0


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
