"""One interface to file locks for asyncio and threads: every verb is awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold import files
from leasehold.files import blocking

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIDES = ("async", "blocking")
_VERBS = {
    "acquire_all",
    "acquire_read",
    "acquire_write",
    "history",
    "inspect",
    "lost",
    "read_file",
    "release",
    "release_session_locks",
    "renew",
    "restore",
    "session",
    "upgrade",
    "write_file",
}
_CONTEXTS = {"read", "write", "write_all", "room"}
_OURS = (
    files.FileLocks,
    files.Session,
    files.FileLease,
    files.FileLeases,
    blocking.FileLocks,
    blocking.Session,
    blocking.FileLease,
    blocking.FileLeases,
)


class Awaited:
    """Wraps an object so that its verbs are awaited; everything else is passed through."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __repr__(self) -> str:
        return repr(self.thing)

    def __getitem__(self, name: str) -> Any:
        return _shown(self.thing[name])

    def __iter__(self) -> Any:
        return iter(self.thing)

    def __getattr__(self, name: str) -> Any:
        if name == "thing":  # not made yet: do not look for it in itself
            raise AttributeError(name)
        found = getattr(self.thing, name)
        if name in _CONTEXTS:
            return lambda *args, **options: _Scope(found(*args, **options))
        if name not in _VERBS:
            return found

        async def call(*args: Any, **options: Any) -> Any:
            return _shown(await _do(found, *args, **options))

        return call

    async def everything(self) -> list[Any]:
        """All items of `list`."""
        if isinstance(self.thing, files.FileLocks):
            return [info async for info in self.thing.list()]
        return await asyncio.to_thread(lambda: list(self.thing.list()))


class _Scope:
    def __init__(self, context: Any) -> None:
        self._context = context

    async def __aenter__(self) -> Any:
        enter = getattr(self._context, "__aenter__", None) or self._context.__enter__
        return _shown(await _do(enter))

    async def __aexit__(self, *error: object) -> Any:
        leave = getattr(self._context, "__aexit__", None) or self._context.__exit__
        return await _do(leave, *error)


async def _do(verb: Callable[..., Any], *args: Any, **options: Any) -> Any:
    owner = verb.__self__
    if "blocking" in type(owner).__module__:
        return await asyncio.to_thread(verb, *args, **options)
    return await verb(*args, **options)


def _shown(result: Any) -> Any:
    return Awaited(result) if isinstance(result, _OURS) else result


def file_locks(client: Any, root: Path, **options: Any) -> Any:
    """`FileLocks` of the client's side."""
    if isinstance(client, leasehold.Client):
        return Awaited(files.FileLocks(client, root=root, **options))
    return Awaited(blocking.FileLocks(client, root=root, **options))
