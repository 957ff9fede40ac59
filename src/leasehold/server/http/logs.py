"""What goes to stderr."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from leasehold.observe.request_id import request_id

if TYPE_CHECKING:
    from leasehold.server.settings import Settings

_FORMAT = "%(asctime)s %(levelname)s %(process)d %(request_id)s %(name)s: %(message)s"


class WithRequestId(logging.Filter):
    """Says to which request a line belongs, where it belongs to one."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every line pass."""
        record.request_id = request_id.get()
        return True


def configure_logs(settings: Settings) -> None:
    """For a process of the server: our own lines as set, those of others only from warnings on."""
    handler = logging.StreamHandler()
    handler.addFilter(WithRequestId())
    handler.setFormatter(_formatter(settings))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("leasehold").setLevel(settings.log_level.upper())


def lock_logger(settings: Settings) -> Any:
    """Where what is done with locks is written: as all the other lines are."""
    from leasehold.observe.logging import json_logger, text_logger  # noqa: PLC0415 - as below

    return json_logger() if settings.log_format == "json" else text_logger()


def _formatter(settings: Settings) -> logging.Formatter:
    if settings.log_format == "text":
        return logging.Formatter(_FORMAT)
    # Not at the top: the process that watches over the workers starts faster without.
    from leasehold.observe.logging import JsonFormatter  # noqa: PLC0415 - see above

    return JsonFormatter()
