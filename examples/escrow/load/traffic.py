"""The customers: they make deals through the API, and everything else they say one to three times, in any order."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from random import Random

    from examples.escrow.messages import Queue

# Few of them, so that workers meet.
BUYERS = range(2, 5)
SELLERS = range(5, 8)
OPENINGS = [("platform", 0)] + [(f"buyer {n}", 10**9) for n in BUYERS] + [(f"seller {n}", 0) for n in SELLERS]

PATIENCE = 60.0

Command = tuple[str, dict[str, Any]]


class NoAnswerError(Exception):
    """The API did not answer, or was busy all the time."""


class Traffic:
    def __init__(self, http: httpx.AsyncClient, queue: Queue, chance: Random, *, most_waiting: int) -> None:
        self._http = http
        self._queue = queue
        self._chance = chance
        self._most_waiting = most_waiting
        self._to_send: list[Command] = []
        self.deals = 0
        self.messages = 0
        self.tx_hashes: set[str] = set()
        self.decided: set[int] = set()

    async def keep_coming(self, stop: asyncio.Event) -> None:
        """New deals and decisions, as fast as they are dealt with.

        Asked to stop and not cancelled: a request that is cut off may come out as one that failed, and be repeated.
        """
        while not stop.is_set():
            if await self._queue.backlog() + len(self._to_send) < self._most_waiting:
                await self._new_deal()
            await self.decide()
            await self.send(10)
            await asyncio.sleep(0.05)

    async def send(self, count: int) -> int:
        """Send up to ``count`` of the messages that are to be sent, picked at random; how many are left."""
        for _ in range(min(count, len(self._to_send))):
            kind, fields = self._to_send.pop(self._chance.randrange(len(self._to_send)))
            self.messages += 1
            await self._queue.publish(kind, fields)
        return len(self._to_send)

    async def decide(self) -> int:
        """Ask for a payout or a refund, or both, of each deal that is funded; how many that are new."""
        funded = (await self._ask("GET", "/deals", params={"state": "funded"})).json()
        new = [deal_id for deal_id in funded if deal_id not in self.decided]
        for deal_id in new:
            self._ask_for(deal_id)
        return len(new)

    def _ask_for(self, deal_id: int) -> None:
        self.decided.add(deal_id)
        for kind in self._chance.choice([["payout"], ["payout"], ["refund"], ["payout", "refund"]]):
            self._say(kind, {"deal_id": deal_id})

    async def _new_deal(self) -> None:
        shares = [self._chance.randint(100, 9999) for _ in range(self._chance.randint(1, 3))]
        new = {
            "buyer_id": self._chance.choice(BUYERS),
            "seller_id": self._chance.choice(SELLERS),
            "price": sum(shares),
        }
        deal_id = (await self._ask("POST", "/deals", json=new)).json()["id"]
        self.deals += 1
        for number, amount in enumerate(shares):
            tx_hash = f"0x{self._chance.randbytes(8).hex()}{number}"
            self.tx_hashes.add(tx_hash)
            self._say("deposit", {"deal_id": deal_id, "tx_hash": tx_hash, "amount": amount})
        if self._chance.random() < 0.1:
            self._ask_for(deal_id)  # impatient: the money is not there yet
        elif self._chance.random() < 0.1:
            await self._ask("POST", f"/deals/{deal_id}/cancel")

    async def _ask(self, method: str, path: str, **what: Any) -> httpx.Response:
        """The answer, asked for again like any customer would if there is none or if it says to come back."""
        give_up_at = time.monotonic() + PATIENCE
        while time.monotonic() < give_up_at:
            try:
                answer = await self._http.request(method, path, **what)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in {409, 503}:
                return answer.raise_for_status()
            await asyncio.sleep(0.5)
        raise NoAnswerError(f"{method} {path}: nothing but busy")

    def _say(self, kind: str, fields: dict[str, Any]) -> None:
        self._to_send += [(kind, fields)] * self._chance.randint(1, 3)
