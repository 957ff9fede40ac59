"""The document service: accounts, documents, and the locks of people who edit them."""

from typing import TYPE_CHECKING, Any

from leasehold.server.settings import Settings

if TYPE_CHECKING:
    from leasehold.server.app.app import create_app

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    # When first asked for: the process that watches over the workers needs neither FastAPI nor a database.
    if name == "create_app":
        from leasehold.server.app.app import create_app  # noqa: PLC0415 - see above

        return create_app
    raise AttributeError(name)
