"""The round trip: PING over the limit's connection (bare hiredis, uvloop) on an idle server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import quantiles
from time import monotonic
from typing import Self
from urllib.parse import urlsplit

from bench.limit import LimitConnection


class RoundTrip:
    """A unit of time: the median of all pings of a run, known when the run is over.

    Of the whole run, because a ping takes 36 µs with both ends on one core and 115 to 400 µs on two that wake each
    other, and the scheduler's choice for a ping is unrelated to that for the adjacent round.
    """

    def __init__(self, connection: LimitConnection) -> None:
        self._connection = connection
        self._taken: list[float] = []
        self._deciles: list[float] = []

    @classmethod
    @asynccontextmanager
    async def measuring(cls, url: str) -> AsyncIterator[Self]:
        address = urlsplit(url)
        _, connection = await asyncio.get_running_loop().create_connection(
            LimitConnection, address.hostname, address.port
        )
        try:
            yield cls(connection)
        finally:
            connection.close()

    async def ping(self, seconds: float) -> None:
        """Send one ping after the other for ``seconds``."""
        sent_at = monotonic()
        ends_at = sent_at + seconds
        while sent_at < ends_at:
            await self._connection.request("PING")
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
        if not self._deciles:  # cached, because sorting a hundred thousand pings is slow
            self._deciles = quantiles(self._taken, n=10)
        return self._deciles[number - 1]
