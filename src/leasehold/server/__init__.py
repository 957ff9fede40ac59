"""The document service: accounts, documents, and locks on the documents that are being edited."""

from typing import TYPE_CHECKING, Any

from leasehold.extras import requires_extra

with requires_extra(__name__, "server"):
    from leasehold.server.settings import Settings

if TYPE_CHECKING:
    from leasehold.server.app.app import create_app

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    # On first use, because the supervisor needs neither FastAPI nor a database.
    if name == "create_app":
        with requires_extra(__name__, "server"):
            from leasehold.server.app.app import create_app  # noqa: PLC0415 - see above

        return create_app
    raise AttributeError(name)
