"""What the tests of the operations share."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

import pytest
from tests.support.brokers import Broker, BrokerMissingError, Nats, Rabbit

import leasehold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.servers import Server

B = TypeVar("B", bound=Broker)


@pytest.fixture
async def locks(valkey: Server) -> AsyncIterator[leasehold.Client]:
    """A client of the session's Valkey, emptied."""
    async with leasehold.connect(valkey.url) as client:
        yield client


@pytest.fixture(scope="session")
def rabbit() -> Iterator[Rabbit]:
    """The session's RabbitMQ; `make brokers` installs it."""
    yield from started(Rabbit())


@pytest.fixture(scope="session")
def nats() -> Iterator[Nats]:
    """The session's NATS with JetStream; `make brokers` installs it."""
    yield from started(Nats())


def started(broker: B) -> Iterator[B]:
    with ExitStack() as stack:
        try:
            stack.enter_context(broker)
        except BrokerMissingError as missing:
            pytest.skip(str(missing))
        yield broker
