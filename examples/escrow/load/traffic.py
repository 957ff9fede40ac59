"""Simulates customers: they create deals through the API, and send each message one to three times, in any order."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from random import Random

    from examples.escrow.messages import Queue

# Few accounts, so that workers contend for them.
BUYERS = range(2, 5)
SELLERS = range(5, 8)
OPENINGS = [("platform", 0)] + [(f"buyer {n}", 10**9) for n in BUYERS] + [(f"seller {n}", 0) for n in SELLERS]

PATIENCE = 60.0

Command = tuple[str, dict[str, Any]]


class NoResponseError(Exception):
    """The API did not respond, or was always busy."""


class Traffic:
    def __init__(self, http: httpx.AsyncClient, queue: Queue, chance: Random, *, max_backlog: int) -> None:
        self._http = http
        self._queue = queue
        self._chance = chance
        self._max_backlog = max_backlog
        self._to_send: list[Command] = []
        self.deals = 0
        self.messages = 0
        self.tx_hashes: set[str] = set()
        self.decided: set[int] = set()

    async def generate(self, stop: asyncio.Event) -> None:
        """Create deals and decisions, as fast as the workers process them.

        Stopped by an event and not cancelled: an interrupted request could look like a failed one, and be repeated.
        """
        while not stop.is_set():
            if await self._queue.backlog() + len(self._to_send) < self._max_backlog:
                await self._new_deal()
            await self.decide()
            await self.send(10)
            await asyncio.sleep(0.05)

    async def send(self, count: int) -> int:
        """Send up to ``count`` of the queued messages, picked at random, and return the number left."""
        for _ in range(min(count, len(self._to_send))):
            kind, fields = self._to_send.pop(self._chance.randrange(len(self._to_send)))
            self.messages += 1
            await self._queue.publish(kind, fields)
        return len(self._to_send)

    async def decide(self) -> int:
        """Queue a payout, a refund or both for each funded deal, and return the number of new ones."""
        funded = (await self._request("GET", "/deals", params={"state": "funded"})).json()
        new = [deal_id for deal_id in funded if deal_id not in self.decided]
        for deal_id in new:
            self._queue_decision(deal_id)
        return len(new)

    def _queue_decision(self, deal_id: int) -> None:
        self.decided.add(deal_id)
        for kind in self._chance.choice([["payout"], ["payout"], ["refund"], ["payout", "refund"]]):
            self._queue_message(kind, {"deal_id": deal_id})

    async def _new_deal(self) -> None:
        shares = [self._chance.randint(100, 9999) for _ in range(self._chance.randint(1, 3))]
        new = {
            "buyer_id": self._chance.choice(BUYERS),
            "seller_id": self._chance.choice(SELLERS),
            "price": sum(shares),
        }
        deal_id = (await self._request("POST", "/deals", json=new)).json()["id"]
        self.deals += 1
        for number, amount in enumerate(shares):
            tx_hash = f"0x{self._chance.randbytes(8).hex()}{number}"
            self.tx_hashes.add(tx_hash)
            self._queue_message("deposit", {"deal_id": deal_id, "tx_hash": tx_hash, "amount": amount})
        if self._chance.random() < 0.1:
            self._queue_decision(deal_id)  # too early: the deal is not funded yet
        elif self._chance.random() < 0.1:
            await self._request("POST", f"/deals/{deal_id}/cancel")

    async def _request(self, method: str, path: str, **what: Any) -> httpx.Response:
        """The response; repeats the request, as customers do, if there is none or if it is a 409 or 503."""
        give_up_at = time.monotonic() + PATIENCE
        while time.monotonic() < give_up_at:
            try:
                answer = await self._http.request(method, path, **what)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in {409, 503}:
                return answer.raise_for_status()
            await asyncio.sleep(0.5)
        raise NoResponseError(f"{method} {path}: no response, or always busy")

    def _queue_message(self, kind: str, fields: dict[str, Any]) -> None:
        self._to_send += [(kind, fields)] * self._chance.randint(1, 3)
