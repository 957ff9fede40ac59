"""Many processes, many files, sudden deaths: `python -m tests.files.stress --processes 20 --operations 500 --files 50`.

Every process is one session. It is killed now and then, and started again at once or after its leases have ended. Half of
them have leases so long that they are alive in the next life, however slow the machine. In the end the checker looks
at what all of them wrote down and at what is in the files.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.files.stress_checker import check
from tests.files.stress_records import compose, read_journals
from tests.files.stress_worker import Orders, Planted
from tests.support.launcher import launch
from tests.support.servers import Server

from leasehold.files.content.contents import sha256_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
LONG_TTL = 30.0


@dataclass(frozen=True)
class Plan:
    processes: int = 20
    operations: int = 500
    files: int = 50
    kills: int = 60
    ttl: float = 3.0
    seed: str = "leasehold"
    planted: Planted = "nothing"
    patience: float = 900.0


@dataclass
class Outcome:
    complaints: list[str]
    counts: Counter[str]
    kills: int
    leftovers: list[str]
    seconds: float

    def __str__(self) -> str:
        counted = ", ".join(f"{number:,} {what}" for what, number in sorted(self.counts.items()))
        verdict = (
            f"{len(self.complaints)} things cannot have happened" if self.complaints else "nothing wrong"
        )
        return f"{counted}; {self.kills} killed; {self.seconds:.0f} s; {verdict}"


@dataclass
class Crew:
    """The processes: started, killed, and started again."""

    orders: list[Orders]
    chance: random.Random
    running: dict[int, tuple[subprocess.Popen[bytes], IO[bytes]]] = field(default_factory=dict)
    due: dict[int, float] = field(default_factory=dict)
    due_last: list[int] = field(default_factory=list)
    kills: int = 0

    def start(self, number: int) -> None:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        process = launch(
            self.orders[number].as_arguments(),
            stderr=errors,
            cwd=str(ROOT),
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            },
        )
        self.running[number] = process, errors

    def kill_one(self) -> None:
        """Of those with long leases one that holds something, and of the others any, anywhere, in turn.

        The next life begins at once, or, of the others, when the leases of this one have ended.
        """
        alive = [number for number, (process, _) in self.running.items() if process.poll() is None]
        if not alive:
            return
        in_turn = [number for number in alive if has_long_leases(number) == (self.kills % 2 == 0)]
        number = self.chance.choice(in_turn or alive)
        if has_long_leases(number):
            if not self._stop_while_it_holds(number):
                return
        elif self.chance.random() < 0.7:
            self._wait_until_it_holds(number)
        self.running[number][0].kill()
        self._bury(number)
        ttl = 0.0 if has_long_leases(number) else self.orders[number].ttl
        self.due[number] = time.monotonic() + self.chance.choice([0.0, 0.0, 0.7 * ttl, 1.5 * ttl])

    def _bury(self, number: int) -> None:
        process, errors = self.running.pop(number)
        process.wait(60)
        errors.close()
        self.kills += 1
        orders = self.orders[number]
        self.orders[number] = replace(
            orders, life=orders.life + 1, seed=str(self.chance.random()), dies_writing=False
        )

    def crash_before_the_others(self) -> None:
        """The first of them dies in its first write, and only then the others begin; it is back when they have ended."""
        self.orders[0] = replace(self.orders[0], dies_writing=True)
        self.start(0)
        process = self.running[0][0]
        self._bury(0)
        assert process.returncode == -signal.SIGKILL
        self.due_last.append(0)
        for number in range(1, len(self.orders)):
            self.start(number)

    def _stop_while_it_holds(self, number: int) -> bool:
        """Whether it is stopped now and holds a file; False if it has done its work."""
        process = self.running[number][0]
        while process.poll() is None:
            self._wait_until_it_holds(number)
            process.send_signal(signal.SIGSTOP)
            if process.returncode is not None:  # it has ended, and nothing was sent
                return False
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if process.poll() is None and self._last_event(number).startswith((b"granted", b"read", b"writ")):
                return True
            process.send_signal(signal.SIGCONT)
        return False

    def _wait_until_it_holds(self, number: int) -> None:
        """So that there is something to restore; for a moment only, since it may be about to end."""
        give_up_at = time.monotonic() + 1
        while time.monotonic() < give_up_at:
            if self._last_event(number).startswith((b"granted", b"read", b"writ", b"report", b"upgrading")):
                return
            time.sleep(0.001)

    def _last_event(self, number: int) -> bytes:
        orders = self.orders[number]
        journal = Path(orders.journals) / f"{orders.session}.{orders.life}.jsonl"
        return journal.read_bytes()[-2000:].rpartition(b'"event": "')[2] if journal.exists() else b""

    def look_after(self) -> bool:
        """Starts the processes that are due; False when all have done their work. A process that failed by itself is an error."""
        for number, (process, errors) in list(self.running.items()):
            if process.poll() is not None:
                del self.running[number]
                errors.seek(0)
                said = errors.read().decode(errors="replace")
                errors.close()
                assert process.returncode == 0, f"{self.orders[number].session} failed: {said}"
        for number, moment in list(self.due.items()):
            if time.monotonic() >= moment:
                del self.due[number]
                self.start(number)
        if self.due_last and not (self.running or self.due):
            self.start(self.due_last.pop())
        return bool(self.running or self.due)

    def end(self) -> None:
        for process, errors in self.running.values():
            process.kill()
            process.wait(30)
            errors.close()


def has_long_leases(number: int) -> bool:
    return number % 2 == 1


def run(plan: Plan, url: str, directory: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    """Do all of it, and judge it."""
    root, journals = directory / "files", directory / "journals"
    root.mkdir()
    journals.mkdir()
    names = [f"f{number:02}" for number in range(plan.files)]
    for name in names:
        (root / name).write_bytes(compose(name, 0))
    before = {name: sha256_of((root / name).read_bytes()) for name in names}
    chance = random.Random(plan.seed)
    # Other runs on the same server have sessions of their own.
    team = f"worker-{secrets.token_hex(3)}"
    crew = Crew(
        [
            Orders(
                url,
                str(root),
                str(journals),
                f"{team}-{number}",
                secrets.token_hex(32),
                0,
                f"{plan.seed}-{number}",
                plan.operations,
                plan.files,
                LONG_TTL if has_long_leases(number) else plan.ttl,
                plan.planted,
                together=plan.processes if plan.planted == "no locks" else 1,
            )
            for number in range(plan.processes)
        ],
        chance,
    )
    began_at = time.monotonic()
    _drive(plan, crew, journals, began_at, say)
    lines = read_journals(journals)
    after = {name: sha256_of((root / name).read_bytes()) for name in names}
    counts = Counter[str](line["event"] for line in lines)
    counts.update(f"report {line['outcome']}" for line in lines if line["event"] == "report")
    leftovers = sorted(entry.name for entry in root.iterdir() if entry.name not in before)
    return Outcome(
        check(lines, before=before, after=after), counts, crew.kills, leftovers, time.monotonic() - began_at
    )


def _drive(plan: Plan, crew: Crew, journals: Path, began_at: float, say: Callable[[str], None]) -> None:
    total = plan.processes * plan.operations
    progress = Progress(journals)
    said_at = began_at
    try:
        if plan.planted in {"writes in place", "restore made up"}:
            crew.crash_before_the_others()
        else:
            for number in range(plan.processes):
                crew.start(number)
        while crew.look_after():
            assert time.monotonic() - began_at < plan.patience, (
                f"only {progress.ended()} of {total} were done"
            )
            # Spread over the whole work, and not over time, because the speed of the machine is unknown.
            if crew.kills < plan.kills and progress.ended() >= total * (crew.kills + 0.5) / (plan.kills + 1):
                crew.kill_one()
            if time.monotonic() - said_at > 2:
                said_at = time.monotonic()
                say(
                    f"{progress.ended():,} of {total:,} operations, {crew.kills} of {plan.kills} killed, "
                    f"{said_at - began_at:.0f} s"
                )
            time.sleep(0.01)
    finally:
        crew.end()


class Progress:
    """How many operations have ended, without reading anything twice."""

    def __init__(self, journals: Path) -> None:
        self._journals = journals
        self._read: dict[Path, int] = {}
        self._count = 0
        self._looked_at = 0.0

    def ended(self) -> int:
        if time.monotonic() - self._looked_at > 0.1:
            for journal in self._journals.iterdir():
                with journal.open("rb") as opened:
                    opened.seek(self._read.get(journal, 0))
                    fresh = opened.read()
                self._read[journal] = self._read.get(journal, 0) + len(fresh)
                self._count += fresh.count(b'"event": "ended"')
            self._looked_at = time.monotonic()
        return self._count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.files.stress", description=__doc__)
    for name in ("processes", "operations", "files", "kills"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--planted", default="nothing", help="what is to be wrong: see stress_worker.Planted")
    parser.add_argument("--keep", type=Path, help="where to leave the files and journals")
    options: dict[str, Any] = vars(parser.parse_args())
    keep = options.pop("keep")
    plan = Plan(**options)
    with tempfile.TemporaryDirectory() as scratch, Server("valkey9") as server:
        directory = keep or Path(scratch).resolve()
        directory.mkdir(exist_ok=True)
        print(f"seed {plan.seed}")
        outcome = run(plan, server.url, directory, lambda text: print(text, flush=True))
    print(outcome)
    for complaint in outcome.complaints[:20]:
        print(f"  {complaint}")
    return 1 if outcome.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
