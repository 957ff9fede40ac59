"""An editor in a process of its own, which tests ask to save, stop and kill."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import httpx
from websockets.asyncio.client import connect

if TYPE_CHECKING:
    from tests.support.processes import Parent


def edit(parent: Parent) -> None:
    """Acquires the lock, sends heartbeats, answers a force-take with a save of the last text, and saves on request."""
    asyncio.run(_edit(parent, *parent.args))


async def _edit(parent: Parent, url: str, token: str, document_id: str, beat_every: float) -> None:
    headers = {"Authorization": f"Bearer {token}", "Leasehold-Tab": "the holder"}
    document = f"/api/documents/{document_id}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
        grant = (await http.post(f"{document}/lock")).raise_for_status().json()

        async def save(text: str, **more: Any) -> dict[str, Any]:
            body = {
                "content": text,
                "base_version": grant["content_version"],
                "fence": grant["fence"],
                **more,
            }
            answer = await http.put(f"{document}/content", json=body)
            return {"status": answer.status_code, **answer.json()}

        async def beat() -> None:
            while True:
                await asyncio.sleep(beat_every)
                await http.post(f"{document}/lock/heartbeat")

        async def save_on_request() -> None:
            while line := await asyncio.to_thread(sys.stdin.readline):
                parent.send(did="save", **await save(json.loads(line)))

        async with connect(url.replace("http", "ws") + "/ws") as socket:
            for kind, data in (
                ("authenticate", {"token": token, "tab": "the holder"}),
                ("join", {"document_id": document_id}),
            ):
                await socket.send(json.dumps({"type": kind, "data": data}))
                await socket.recv()
            doing = [asyncio.create_task(beat()), asyncio.create_task(save_on_request())]
            parent.send(did="acquire", fence=grant["fence"])
            async for text in socket:
                if json.loads(text)["type"] == "document_force_save_requested":
                    parent.send(did="yield", **await save("the last text", release=True))
            await asyncio.gather(*doing)
