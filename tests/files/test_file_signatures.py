"""The async and the blocking side of files have the same names and arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from leasehold import files
from leasehold.files import blocking, client

PAIRS = {
    "FileLocks": (files.FileLocks, blocking.FileLocks),
    "Session": (files.Session, blocking.Session),
    "FileLease": (files.FileLease, blocking.FileLease),
    "FileLeases": (files.FileLeases, blocking.FileLeases),
}
PLAIN = {"abandon", "check", "remaining", "loss", "file", "read", "write", "write_all", "room"}


def verbs(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


def shape(function: Any) -> list[tuple[str, str, Any]]:
    return [
        (parameter.name, parameter.kind.name, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("name", PAIRS)
def test_both_sides_have_the_same_verbs(name: str) -> None:
    one, other = PAIRS[name]
    assert verbs(one) == verbs(other)


@pytest.mark.parametrize(
    ("name", "verb"), [(name, verb) for name, (one, _) in PAIRS.items() for verb in sorted(verbs(one))]
)
def test_a_verb_takes_the_same_arguments_on_both_sides(name: str, verb: str) -> None:
    one, other = PAIRS[name]
    assert shape(getattr(one, verb)) == shape(getattr(other, verb))


@pytest.mark.parametrize("name", PAIRS)
def test_verbs_that_ask_the_store_are_awaited_on_the_async_side_only(name: str) -> None:
    one, other = PAIRS[name]
    for verb in vars(one).keys() & verbs(one) - PLAIN - {"on_exchange"}:
        is_async = inspect.iscoroutinefunction(getattr(one, verb)) or inspect.isasyncgenfunction(
            getattr(one, verb)
        )
        assert is_async, verb
        assert not inspect.iscoroutinefunction(getattr(other, verb)), verb


def test_the_public_names_are_there() -> None:
    for name in files.__all__:
        assert getattr(files, name) is not None
    assert files.FileLocks is client.FileLocks
