"""The OpenAPI document: ``python -m leasehold.server.app.openapi``. The page's types are generated from it."""

from __future__ import annotations

import json
import sys
from typing import Any

from leasehold.server.app.app import create_app
from leasehold.server.settings import Settings


def openapi_document() -> dict[str, Any]:
    """The document of an application that is not started."""
    return create_app(Settings.load()).openapi()


def main() -> None:
    """Print it."""
    sys.stdout.write(json.dumps(openapi_document(), indent=2, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
