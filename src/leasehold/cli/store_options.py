"""The store that the options name: by flags, else by the environment, else the embedded one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import leasehold
from leasehold.valkey.transport.store_url import redis_url

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of the store, which every command has."""

    url: str | None
    data_dir: Path | str | None
    namespace: str
    timeout: float

    def connect(self, **options: Any) -> leasehold.Client:
        """An asynchronous client."""
        return leasehold.connect(**self._address(), **options)

    def connect_blocking(self, **options: Any) -> leasehold.blocking.Client:
        """A blocking client."""
        return leasehold.blocking.connect(**self._address(), **options)

    def _address(self) -> dict[str, Any]:
        url, data_dir = locate_store(self.url, self.data_dir, os.environ)
        return {"url": url, "data_dir": data_dir, "namespace": self.namespace, "timeout": self.timeout}


def locate_store(
    url: str | None, data_dir: Path | str | None, environ: Mapping[str, str]
) -> tuple[str | None, Path | str | None]:
    """The store's URL, or None and the directory of the embedded store. Flags take precedence over the environment.

    In the environment a URL takes precedence over a directory: locks that were meant to be shared must never
    silently become local ones.
    """
    if url is not None or data_dir is not None:
        return url, data_dir  # the library refuses both
    if found := environ.get("LEASEHOLD_STORE_URL"):
        return found, None
    if found := redis_url(environ.get("REDIS_HOST"), environ.get("REDIS_PORT")):
        return found, None
    return None, environ.get("LEASEHOLD_DATA_DIR") or None
