"""`python -m bench.documents.clients_process`: WebSocket clients in a separate process.

Reads lines of JSON from stdin and writes to stdout. The first has the address and the scripts; every other one is the
number of arrivals to wait for. It is answered at once, and again with the arrival times. Ends with its stdin, and so
with its parent.
"""

import gc
import json
import os
import select
import sys
import time
from typing import Any

from bench.documents.websocket_clients import SocketClient, WebSocketClients

PATIENCE = 10.0


def main() -> None:
    stdin = sys.stdin.buffer.raw  # unbuffered, so that poll sees unread data
    order = json.loads(stdin.readline())
    arrivals: list[float] = []
    expected, deadline = 0, 0.0

    def hear(_member: SocketClient, _text: bytes) -> None:
        arrivals.append(time.monotonic())

    clients = WebSocketClients(order["port"], order["path"], hear)
    scripts = order["scripts"]
    clients.connect([scripts[number % len(scripts)] for number in range(order["count"])])
    gc.collect()
    gc.disable()  # there is no garbage here, and a collection would be charged to the measured server
    _answer({"gathered": order["count"]})

    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(clients, select.POLLIN)
    while True:
        for fd, _ in poll.poll(100):
            if fd != 0:
                clients.pump(0)
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
