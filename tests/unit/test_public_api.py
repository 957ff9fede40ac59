"""The public names and their arguments are those of `tests/public_api.txt`; a change of either is seen in review.

`python -m tests.unit.test_public_api` writes the file anew.
"""

from __future__ import annotations

import importlib
import inspect
from enum import Enum
from pathlib import Path

LIST = Path(__file__).parents[1] / "public_api.txt"

MODULES = [
    "leasehold",
    "leasehold.blocking",
    "leasehold.documents",
    "leasehold.documents.fastapi",
    "leasehold.documents.uvicorn",
    "leasehold.files",
    "leasehold.files.blocking",
    "leasehold.observe",
    "leasehold.operations",
    "leasehold.operations.blocking",
    "leasehold.operations.fastapi",
    "leasehold.operations.faststream",
    "leasehold.operations.guards.http",
    "leasehold.operations.guards.sql",
    "leasehold.operations.guards.valkey",
    "leasehold.server",
]


def describe_api(names: list[str] = MODULES) -> str:
    """One line for each public name, and for each public method and property of a class."""
    return "".join(f"{line}\n" for name in names for line in _describe_module(name))


def _describe_module(name: str) -> list[str]:
    module = importlib.import_module(name)
    own = [key for key, value in vars(module).items() if inspect.isclass(value) or inspect.isroutine(value)]
    own = [key for key in own if vars(module)[key].__module__ == name]
    lines: list[str] = []
    for public in sorted(getattr(module, "__all__", own)):
        if public.startswith("_"):
            continue
        lines += _describe(f"{name}.{public}", getattr(module, public))
    return lines


def _describe(path: str, value: object) -> list[str]:
    if inspect.isclass(value):
        return [f"class {path}", *_describe_members(path, value)]
    if inspect.isroutine(value):
        return [f"def {path}{_arguments(value)}"]
    return [f"{type(value).__name__} {path}"]


def _describe_members(path: str, kind: type) -> list[str]:
    if issubclass(kind, Enum):
        return [f"  {path}.{member.name} = {member.value!r}" for member in kind]
    lines = []
    if _is_ours(kind, "__init__"):
        lines.append(f"  {path}{_arguments(kind.__init__)}")
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or not _is_ours(kind, name):
            continue
        if isinstance(member, property) or not callable(member):
            lines.append(f"  {path}.{name}")
        else:
            lines.append(f"  {path}.{name}{_arguments(member)}")
    return lines


def _is_ours(kind: type, name: str) -> bool:
    """Whether one of our classes defines the member, and not a framework that it extends."""
    return any(name in vars(each) and each.__module__.startswith("leasehold") for each in kind.__mro__)


def _arguments(function: object) -> str:
    parameters = inspect.signature(function).parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature([each for each in bare if each.name != "self"]))


def test_the_public_api_is_the_listed_one():
    assert describe_api() == LIST.read_text(), "changed on purpose? python -m tests.unit.test_public_api"


def test_a_changed_argument_is_seen(monkeypatch):
    monkeypatch.setattr("leasehold.connect", lambda address: address)
    assert describe_api(["leasehold"]) not in LIST.read_text()


if __name__ == "__main__":
    LIST.write_text(describe_api())
