"""Fixtures of the virtual world."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.virtual_world import ScriptedStore, World, make_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasehold.core.engine import Engine
    from leasehold.core.leases.lease import LeaseState


@pytest.fixture
def world() -> Iterator[World]:
    virtual = World()
    yield virtual
    virtual.close()


@pytest.fixture
def store(world: World) -> ScriptedStore:
    return ScriptedStore(world)


@pytest.fixture
def engine(world: World, store: ScriptedStore) -> Engine[LeaseState]:
    return make_engine(world, store)
