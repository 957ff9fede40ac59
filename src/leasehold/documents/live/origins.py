"""From which pages a browser may connect."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_allowed(origin: str | None, host: str | None, allowed: Sequence[str]) -> bool:
    """Whether a page of ``origin`` may connect to ``host``: to its own host always, else if it is ``allowed``.

    Only browsers send an origin, and always do: without one it is some other program, which could say what it likes.
    """
    if origin is None:
        return True
    if "*" in allowed or _normal(origin) in {_normal(each) for each in allowed}:
        return True
    return host is not None and _is_same_host(origin, host)


def _is_same_host(origin: str, host: str) -> bool:
    # Not the scheme: whoever takes TLS off in front of us is not seen here.
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
