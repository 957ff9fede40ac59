"""The round trip: PING over the limit's connection (bare hiredis, uvloop) while nobody else asks anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import quantiles
from time import monotonic
from typing import Self
from urllib.parse import urlsplit

from bench.limit import Wire


class RoundTrip:
    """A unit of time: the median of all pings of a run, known when the run is over.

    Of the whole run, because it is 36 µs with both ends on one core and 115 to 400 µs on two that wake each other,
    and where the scheduler puts a ping says nothing about the round beside it.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._taken: list[float] = []
        self._deciles: list[float] = []

    @classmethod
    @asynccontextmanager
    async def measuring(cls, url: str) -> AsyncIterator[Self]:
        address = urlsplit(url)
        _, wire = await asyncio.get_running_loop().create_connection(Wire, address.hostname, address.port)
        try:
            yield cls(wire)
        finally:
            wire.close()

    async def ping(self, seconds: float) -> None:
        """One ping after the other for so many seconds."""
        sent_at = monotonic()
        ends_at = sent_at + seconds
        while sent_at < ends_at:
            await self._wire.request("PING")
            back_at = monotonic()
            self._taken.append(back_at - sent_at)
            sent_at = back_at
        self._deciles = []

    @property
    def seconds(self) -> float:
        return self._decile(5)

    def __str__(self) -> str:
        low, middle, high = (self._decile(number) * 1e6 for number in (1, 5, 9))
        return f"{middle:.0f} µs (a tenth below {low:.0f}, a tenth above {high:.0f})"

    def _decile(self, number: int) -> float:
        if not self._deciles:  # a hundred thousand pings are not to be sorted at every question
            self._deciles = quantiles(self._taken, n=10)
        return self._deciles[number - 1]
