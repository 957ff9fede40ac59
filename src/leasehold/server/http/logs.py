"""The configuration of logging to stderr."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from leasehold.observe.request_id import request_id

if TYPE_CHECKING:
    from leasehold.server.settings import Settings

_FORMAT = "%(asctime)s %(levelname)s %(process)d %(request_id)s %(name)s: %(message)s"


class RequestIdFilter(logging.Filter):
    """Adds the request id to log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep every record."""
        record.request_id = request_id.get()
        return True


class TextFormatter(logging.Formatter):
    """Formats records as lines for people. A message may contain what a client has sent, such as a path.

    Control characters are escaped: they could forge a line, or make a terminal do something when the log is shown.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Format the line without its traceback."""
        return _escape(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Format a traceback, which has several lines."""
        return "\n".join(_escape(line) for line in super().formatException(ei).split("\n"))


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def configure_logs(settings: Settings) -> None:
    """Configure a process of the server: our loggers as set, those of other libraries from warnings on."""
    handler = logging.StreamHandler()
    handler.addFilter(RequestIdFilter())
    handler.setFormatter(_formatter(settings))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("leasehold").setLevel(settings.log_level.upper())
    # Anyone could fill the log with its warnings, one for each request that is not HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def lock_logger(settings: Settings) -> Any:
    """The logger of lock operations, in the format of the other lines."""
    from leasehold.observe.logging import json_logger, text_logger  # noqa: PLC0415 - as below

    return json_logger() if settings.log_format == "json" else text_logger()


def _formatter(settings: Settings) -> logging.Formatter:
    if settings.log_format == "text":
        return TextFormatter(_FORMAT)
    # Not at the top, because the supervisor starts faster without it.
    from leasehold.observe.logging import JsonFormatter  # noqa: PLC0415 - see above

    return JsonFormatter()
