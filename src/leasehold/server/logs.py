"""What goes to stderr."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasehold.server.request_ids import request_id

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
    handler.setFormatter(logging.Formatter(_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("leasehold").setLevel(settings.log_level.upper())
