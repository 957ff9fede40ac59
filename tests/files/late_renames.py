"""Stopping a write right before the new contents get their name."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from tests.support.eventually import LIMIT

from leasehold.files.content import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def stop_at_rename(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Have every rename wait for what ``then`` waits for."""
    rename = os.rename

    def late(*args: Any, **options: Any) -> None:
        then()
        rename(*args, **options)

    monkeypatch.setattr(atomic_write.os, "rename", late)


def hold_renames(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Set as soon as a rename is stopped, and to be set to let it go on."""
    is_paused, goes_on = threading.Event(), threading.Event()

    def pause() -> None:
        is_paused.set()
        assert goes_on.wait(LIMIT)

    stop_at_rename(monkeypatch, pause)
    return is_paused, goes_on
