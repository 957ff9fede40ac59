"""Blocking clients in tests that are written once, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from leasehold import blocking


class InThread:
    """A blocking client or lease whose verbs are awaited, so that one test serves both kinds."""

    def __init__(self, blocking_thing: Any) -> None:
        self._thing = blocking_thing

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._thing, name)
        if not inspect.ismethod(verb) or name in {"check", "remaining", "abandon"}:
            return verb

        async def call(*args: Any, **options: Any) -> Any:
            answer = await asyncio.to_thread(verb, *args, **options)
            return InThread(answer) if isinstance(answer, blocking.Lease) else answer

        return call
