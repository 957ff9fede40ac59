"""Checks the ``Host`` of a request: the name that the browser has looked up to reach this server."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:/@?#\s]+)(:[0-9]+)?")
_MAX_CACHED = 256


class AllowedHosts:
    """The names that this server may have; None for any.

    A page of another site can let its own name resolve to this machine, so that the browser takes this server for part
    of that site. It cannot do so with an IP address, nor with localhost, so these are always allowed.
    """

    def __init__(self, names: Collection[str] | None) -> None:
        self._names = names
        self._known: dict[bytes, bool] = {}

    def allows(self, host: bytes | None) -> bool:
        """Whether a request with this ``Host`` header is for this server."""
        if self._names is None:
            return True
        if host is None:
            return False
        known = self._known.get(host)
        if known is None:
            known = _is_address_or_in(host.decode("latin-1"), self._names)
            if len(self._known) < _MAX_CACHED:
                self._known[host] = known
        return known


def _is_address_or_in(host: str, names: Collection[str]) -> bool:
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    name = match["name"].removesuffix(".")
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
