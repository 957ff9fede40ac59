"""The targets of the performance plan, one module per family.

To add one: a module with `async def run(bench: Bench) -> list[Result]` (or several), and a line in ALL.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.plan import Bench
from bench.result import Result
from bench.targets import document_locks, fan_out, hand_over, many_tasks, many_threads


@dataclass(frozen=True, slots=True)
class Target:
    id: str
    work: str
    run: Callable[[Bench], Awaitable[list[Result]]]


ALL = [
    Target("P1", "acquire+release, 1 task", many_tasks.one),
    Target("P2", "acquire+release, 100 tasks, own keys", many_tasks.hundred),
    Target("P3", "acquire+release, 1,000 tasks, own keys", many_tasks.thousand),
    Target("P4", "acquire+release, blocking, 1 and 16 threads", many_threads.run),
    Target("P5", "hand-over of one key, 32 waiters in 2 processes", hand_over.run),
    Target("P8", "documents: lock+release over HTTP, one worker", document_locks.run),
    Target("P9", "documents: one change to 2,000 sockets of one worker", fan_out.run),
]

GROUPS = {"locks": ("P1", "P2", "P3", "P4", "P5"), "server": ("P8", "P9")}
"""Groups of targets by name, which the command line accepts."""
