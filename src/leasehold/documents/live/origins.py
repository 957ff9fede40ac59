"""Checks the origin of a browser's page before it may connect."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_allowed(origin: str | None, host: str | None, allowed: Sequence[str]) -> bool:
    """A page of ``origin`` may connect to ``host``: its own host always, another one if the origin is ``allowed``.

    Only browsers send an origin, and always do: without one it is another program, which could send any origin.
    """
    if origin is None:
        return True
    if "*" in allowed or _normal(origin) in {_normal(each) for each in allowed}:
        return True
    return host is not None and _is_same_host(origin, host)


def _is_same_host(origin: str, host: str) -> bool:
    # Not the scheme: a proxy that terminates TLS in front of this server is not visible here.
    try:
        page, asked = urlsplit(origin), urlsplit(f"//{host}")
        page_port, asked_port = page.port, asked.port
    except ValueError:
        return False
    default = _DEFAULT_PORTS.get(page.scheme)
    if page.hostname is None or default is None:
        return False
    return (page.hostname, page_port or default) == (asked.hostname, asked_port or default)


def _normal(origin: str) -> str:
    return origin.rstrip("/").lower()
