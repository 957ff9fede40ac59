"""Refuses to build a wheel without the web page, which git does not contain."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PAGE = Path("src", "leasehold", "server", "page", "index.html")
_ALLOW = "LEASEHOLD_WITHOUT_PAGE"


class PageHook(BuildHookInterface[Any]):
    """Checks that the page has been built. An editable install is for development, and may be built before it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - as hatchling calls it
        """Raise if a wheel would lack the page."""
        is_built = Path(self.root, _PAGE).is_file()
        if version != "editable" and not is_built and os.environ.get(_ALLOW) != "1":
            raise RuntimeError(
                f"the web page is not built ({_PAGE} is missing): run 'make web' (Node 20.19 or newer) first, "
                f"or set {_ALLOW}=1 for a wheel whose server has only the API"
            )
