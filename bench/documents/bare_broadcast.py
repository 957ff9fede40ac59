"""`python -m bench.documents.bare_broadcast`: sends every message on /say to all sockets on /listen."""

import asyncio
import json
import os

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve


async def main() -> None:
    listening: set[ServerConnection] = set()

    async def handle(connection: ServerConnection) -> None:
        assert connection.request is not None
        if connection.request.path == "/say":
            async for message in connection:
                broadcast(listening, message)
            return
        listening.add(connection)
        try:
            await connection.wait_closed()
        finally:
            listening.discard(connection)

    async with serve(handle, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        print(json.dumps({"port": port, "pid": os.getpid()}), flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(main())
