"""What one node costs for each operation and each lock, for the arithmetic of docs/scaling.md: ``python -m bench.sizing``.

The server's own CPU time, because a node is full when its one thread is. The clients may be slow: they do not count.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import leasehold
from bench.server import Server
from leasehold.documents.state import Editor
from leasehold.documents.store.lock_store import DocumentLockStore
from leasehold.documents.timings import Times

TASKS = 100
ROUNDS = 100
NAMES = 100_000
LATER = 3600.0


def cpu_seconds(server: Server) -> float:
    facts = server.admin.info("cpu")
    return facts["used_cpu_user_main_thread"] + facts["used_cpu_sys_main_thread"]


async def cost(
    server: Server, work: Callable[[int], Awaitable[object]], count: int = TASKS * ROUNDS
) -> float:
    """Microseconds of the server for each call of `work`, by many tasks at once."""
    before = cpu_seconds(server)
    numbers = iter(range(count))

    async def task() -> None:
        for number in numbers:
            await work(number)

    await asyncio.gather(*[task() for _ in range(TASKS)])
    return (cpu_seconds(server) - before) / count * 1e6


async def operations(server: Server) -> dict[str, float]:
    async with leasehold.connect(server.url, timeout=60) as locks:
        documents = DocumentLockStore(locks.store_access.transport, Times(ttl=LATER))

        async def cycle(number: int) -> None:
            lease = await locks.acquire(f"cycle {number % TASKS}", ttl=30)
            await lease.release()

        leases = [await locks.acquire(f"kept {number}", ttl=LATER) for number in range(TASKS)]

        async def renew(number: int) -> None:
            await leases[number % TASKS].renew()

        async def hand_over(_: int) -> None:
            lease = await locks.acquire("hot", ttl=30, wait=60)
            await lease.release()

        editor = Editor("0123456789abcdef", "Ana", "tab of Ana")
        names = [f"{number:032x}" for number in range(TASKS)]
        for name in names:
            await documents.acquire(name, editor, ask=name, floor=0, move=False)

        async def beat(number: int) -> None:
            await documents.heartbeat(names[number % TASKS], editor, idle_for=1.0)

        return {
            "acquire and release": await cost(server, cycle),
            "renewal": await cost(server, renew),
            "hand-over to a waiter": await cost(server, hand_over, 5000),
            "heartbeat of a document": await cost(server, beat),
        }


async def memory(server: Server) -> dict[str, float]:
    """Bytes of each held lock and each open document, beyond an empty server."""
    found: dict[str, float] = {}
    async with leasehold.connect(server.url, timeout=60) as locks:
        documents = DocumentLockStore(locks.store_access.transport, Times(ttl=LATER))
        editor = Editor("0123456789abcdef", "Ana", "tab of Ana")

        async def hold(number: int) -> None:
            await locks.acquire(f"{number:032x}", ttl=LATER, holder="worker-17")

        async def open_document(number: int) -> None:
            name = f"{number:032x}"
            await documents.acquire(name, editor, ask=name, floor=0, move=False)

        async def release(number: int) -> None:
            await (await locks.acquire(f"{number:032x}", ttl=LATER, holder="worker-17")).release()

        for what, work in (
            ("held lock", hold),
            ("lock of the last two days that is not held", release),
            ("open document", open_document),
        ):
            server.admin.execute_command("FLUSHALL", "SYNC")
            before = server.admin.info("memory")["used_memory"]
            await cost(server, work, NAMES)
            found[what] = (server.admin.info("memory")["used_memory"] - before) / NAMES
    return found


def main() -> None:
    with ExitStack() as stack:
        alone, primary, replica = (stack.enter_context(Server()) for _ in range(3))
        replica.admin.replicaof("127.0.0.1", primary.port)
        while replica.admin.info("replication")["master_link_status"] != "up":
            pass
        alone_costs = asyncio.run(operations(alone))
        replicated = asyncio.run(operations(primary))
        print("server's CPU, microseconds        alone   with a replica")
        for what, each in alone_costs.items():
            print(f"{what:30}  {each:7.1f}  {replicated[what]:7.1f}")
        for what, size in asyncio.run(memory(alone)).items():
            print(f"bytes of each {what}: {size:.0f}")


if __name__ == "__main__":
    main()
