"""Cycles of locking and releasing documents over HTTP."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

from bench.documents import service
from bench.documents.http import Connection, Refused, request_of
from bench.documents.processes import cpu_seconds, serving
from bench.work import NAMES_EACH, AsyncCycles, Names, Sample, Window, measure_tasks

CLIENTS = 8
DOCUMENTS = CLIENTS * NAMES_EACH


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests for one document, as bytes."""

    lock: bytes
    release: bytes


@dataclass(frozen=True, slots=True)
class LockServer:
    """A measured server and its cycles."""

    pid: int
    cycles: AsyncCycles


@dataclass(frozen=True, slots=True)
class Cycles(Sample):
    cpu: float = 0.0

    @property
    def facts(self) -> dict[str, float]:
        return {"worker's CPU ms": 1000 * self.cpu / self.cycles}


async def measure(server: LockServer, clients: int, seconds: float) -> Cycles:
    before = cpu_seconds(server.pid)
    sample = await measure_tasks(server.cycles, clients, seconds)
    return Cycles(sample.cycles, sample.seconds, cpu=cpu_seconds(server.pid) - before)


@asynccontextmanager
async def leasehold_service(store_url: str) -> AsyncIterator[LockServer]:
    async with service.running(store_url) as served:
        ana = await served.register("Ana")
        documents = await served.create_documents(ana, DOCUMENTS, viewers=[])
        yield LockServer(served.pid, _cycles(served.port, ana.token, documents))


@asynccontextmanager
async def bare_application(store_url: str) -> AsyncIterator[LockServer]:
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as directory:
        async with serving("-m", "bench.documents.bare_locks", store_url, directory) as told:
            yield LockServer(told["pid"], _cycles(told["port"], told["token"], told["documents"]))


def _cycles(port: int, token: str, documents: list[str]) -> AsyncCycles:
    requests = {f"deal:{number}": _requests(token, each) for number, each in enumerate(documents)}

    async def cycles(names: Names, window: Window) -> int:
        done = 0
        # A new connection for each round, because the server closes idle ones while the others are measured.
        with closing(await Connection.open(port)) as connection:
            while window.is_open:
                document = requests[next(names)]
                for request in (document.lock, document.release):
                    status, body = await connection.ask(request)
                    if status != 200:
                        raise Refused(f"{status} {body.decode()}")
                done += 1
        return done

    return cycles


def _requests(token: str, document_id: str) -> Requests:
    path, headers = f"/api/documents/{document_id}/lock", {"Authorization": f"Bearer {token}"}
    return Requests(
        request_of("POST", path, headers=headers, body={}), request_of("DELETE", path, headers=headers)
    )
