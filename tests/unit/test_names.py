"""The tree reads as a stranger expects: small folders, one meaning for a name, nouns for modules, plain English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "leasehold"

MOST_MODULES = 20
FEWEST_LINES = 25

SHORT_MODULES = {
    "core/backoff.py": "one formula, used by core and transports",
    "core/sync_runner.py": "the runner that drives the core for threads",
    "documents/audit.py": "the one place that writes the audit log",
    "extras.py": "the lowest layer, beside the errors",
    "observe/request_id.py": "imported where the rest of observe is not installed",
    "server/app/openapi.py": "an entry point: python -m",
    "server/db/migrations/env.py": "Alembic asks for this file",
}
"""Modules under 25 lines, each with the reason that it is one."""

REPEATED_NAMES = {
    "acquire": "the verb, of the core and of file sessions",
    "app": "the commands of a group; the service's application",
    "blocking": "the public API for threads, one in each face",
    "client": "the public client, of locks and of files",
    "dependencies": "FastAPI's word, in each package with routes",
    "endpoint": "of a socket; of a URL",
    "engine": "of the locks; SQLAlchemy's word for the database",
    "errors": "the public errors; how the command line prints them",
    "fastapi": "the public integration, one in each face",
    "lock_store": "runs the scripts of locks, one in each face",
    "metrics": "of the library; of the service",
    "notifications": "routed by the core; parsed by the store's layer",
    "options": "of the command line; of a connection",
    "output": "of all commands; of the files commands",
    "ports": "what the core, and what documents, need from outside",
    "problems": "the problem bodies of documents; of the service",
    "redis_py": "the public from_client; its transport",
    "release": "the command; the verb of file sessions",
    "routes": "one in each package with routes",
    "schemas": "one in each package with routes",
    "scripts": "one beside each folder of Lua",
    "serve": "the command; what it runs",
    "settings": "of files; of the service",
    "supervisor": "of the workers; of the embedded server",
}
"""Base names of modules in several folders, each with the reason. `__init__` and `__main__` are Python's own."""

REPEATED_CLASSES = {
    **dict.fromkeys(
        [
            "Client",
            "Lease",
            "Leases",
            "LockContext",
            "FileContext",
            "FileLease",
            "FileLeases",
            "FileLocks",
            "Session",
        ],
        "public: the same names for asyncio and for threads",
    ),
    "Operations": "public: the same name for asyncio and for threads",
    "Command": "of the command line; of the store",
    "Busy": "the core's reply; the public outcome of documents",
    "Granted": "the core's reply; the public outcome of documents",
    "Hold": "public, of locks and of documents",
    "Person": "the public value; its schema, named in the protocol",
    "Taking": "the public value; its schema, named in the protocol",
    "Version": "of a lock's state, public; of a document, named in OpenAPI",
    "Credentials": "of a socket and of a login, both named in generated schemas",
}
"""Names of public classes in several modules, each with the reason."""

GERUNDS: dict[str, str] = {
    "blocking": "the public name of the API for threads",
    "case_folding": "the field's noun",
    "co_editing": "the product's word",
    "decoding": "the field's noun",
    "error_mapping": "the field's noun",
    "logging": "the field's noun",
    "paging": "the field's noun",
    "rendering": "the field's noun",
    "tracing": "the field's noun",
}
"""Modules whose name ends in -ing, each with the reason."""

OPENINGS = re.compile(r"(Who|What|Whoever|Whatever|Whether|How|Where|Telling)\b")
DIALECT = re.compile(
    r"\b(whoever|whomever|nobody|somebody|without a word|(?:to|can) be had|(?:is|are) told)\b", re.IGNORECASE
)
"""Persons for machines, and riddles. Comments, docstrings and messages do without them."""


class Module(NamedTuple):
    """A source file. `path` is relative to the package."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return Path(self.path).stem

    @property
    def folder(self) -> str:
        return str(Path(self.path).parent)


def modules() -> list[Module]:
    return [
        Module(str(path.relative_to(SOURCES)), path.read_text())
        for path in sorted(SOURCES.rglob("*.py"))
        if "versions" not in path.parts  # Alembic numbers its migrations
    ]


def large_folders(found: list[Module]) -> list[str]:
    sizes = Counter(module.folder for module in found if module.name != "__init__")
    return [folder for folder, size in sizes.items() if size > MOST_MODULES]


def short_modules(found: list[Module]) -> list[str]:
    return [
        module.path
        for module in found
        if not module.name.startswith("__")
        and len(module.text.splitlines()) < FEWEST_LINES
        and module.path not in SHORT_MODULES
    ]


def repeated_names(found: list[Module]) -> list[str]:
    counts = Counter(module.name for module in found)
    return [
        name
        for name, count in counts.items()
        if count > 1 and not name.startswith("__") and name not in REPEATED_NAMES
    ]


def repeated_classes(found: list[Module]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for module in found:
        for node in ast.parse(module.text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.path)
    return {name: paths for name, paths in places.items() if len(paths) > 1 and name not in REPEATED_CLASSES}


def gerunds(found: list[Module]) -> list[str]:
    return [module.path for module in found if module.name.endswith("ing") and module.name not in GERUNDS]


def riddles(found: list[Module]) -> list[str]:
    """Modules without a docstring, or with one that begins with a question word."""
    return [
        module.path
        for module in found
        if module.text.strip()
        and module.name != "__main__"
        and OPENINGS.match(ast.get_docstring(ast.parse(module.text)) or "What")
    ]


def dialect(found: list[Module]) -> list[str]:
    return [
        f"{module.path}:{token.start[0]}: {match[0]}"
        for module in found
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
        if token.type in {tokenize.COMMENT, tokenize.STRING} and (match := DIALECT.search(token.string))
    ]


CHECKS = [large_folders, short_modules, repeated_names, repeated_classes, gerunds, riddles, dialect]

DOCSTRING = '"""Renews leases."""\n'
LONG = DOCSTRING + "x = 1\n" * 30
PLANTED = {
    large_folders: [Module(f"big/m{number}.py", LONG) for number in range(MOST_MODULES + 1)],
    short_modules: [Module("core/tiny.py", DOCSTRING)],
    repeated_names: [Module("core/queue.py", LONG), Module("files/queue.py", LONG)],
    repeated_classes: [Module("a.py", LONG + "class Room: ..."), Module("b.py", LONG + "class Room: ...")],
    gerunds: [Module("core/keeping.py", LONG)],
    riddles: [Module("core/riddle.py", '"""What nobody foresaw."""\n' + "x = 1\n" * 30)],
    dialect: [Module("core/odd.py", LONG + "# whoever comes first\n")],
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_tree_keeps_the_rules_of_names(check):
    assert not check(modules())


@pytest.mark.parametrize("check", CHECKS)
def test_a_planted_violation_is_found(check):
    assert check(PLANTED[check])


@pytest.mark.parametrize(
    ("reasons", "used"),
    [
        (SHORT_MODULES, {module.path for module in modules()}),
        (REPEATED_NAMES, {module.name for module in modules()}),
        (GERUNDS, {module.name for module in modules()}),
    ],
    ids=["short modules", "repeated names", "gerunds"],
)
def test_no_exception_outlives_its_module(reasons, used):
    assert set(reasons) <= used
