"""Structured logs of lock operations: JSON, with the ids of the trace and the request, and never a secret."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from leasehold.core.observer import LeaseEnded, LossFound, RateLimitChecked
from leasehold.errors import StoreUnavailable
from leasehold.extras import requires_extra
from leasehold.runtime.outages import OutageTracker
from leasehold.valkey.transport.error_mapping import fault_of

with requires_extra(__name__, "observe"):
    import structlog

    from leasehold.observe.propagation import current_ids

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from leasehold.core.observer import Event, Operation, Outcome, Result

LOGGER = "leasehold.observe"
"""The standard library's logger for the lines, unless the application passes one of structlog's."""

# Only these outcomes show that the store answers: a second release, for one, is done without a request.
_ANSWERED = frozenset({"success", "busy", "timeout", "refused", "nothing"})
_LEVELS: dict[Outcome, str] = {"lost": "warning", "refused": "error", "error": "warning"}


class LoggingObserver:
    """Implements `leasehold.core.observer.Observer`.

    Operations are logged at ``debug``, refusals and lost leases at ``warning`` or ``error``. An outage of the store is
    logged once when it begins, at ``error``, and once when it is over; separately for each store, because rate limits
    may be counted in another one.
    """

    def __init__(self, logger: Any = None, *, where: str = "") -> None:
        self._log = logger or json_logger()
        self._where = where
        self._outages: defaultdict[str, OutageTracker] = defaultdict(OutageTracker)

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """Log the end of the operation."""
        began_at = OutageTracker.now()

        def end(result: Result) -> None:
            if result.outcome == "unavailable":
                self._record_failure(result.error, began_at)
            elif result.outcome in _ANSWERED and operation.verb != "release":
                self._record_answer(self._where, began_at)
            level = _LEVELS.get(result.outcome, "debug")
            if level == "debug" and not self._wants_debug():
                return
            facts: dict[str, Any] = {
                "kind": operation.kind,
                "lock": operation.name,
                "outcome": result.outcome,
                "seconds": round(result.seconds, 6),
                "fence": result.fence,
                "waited": result.waited,
                "queue": result.queue,
            }
            if result.error is not None:
                facts |= {"error": getattr(result.error, "code", type(result.error).__name__)}
                facts |= self._facts_of(result.error)
            self._write(level, operation.verb, facts)

        return end

    def hear(self, event: Event) -> None:
        """Log lost leases, and outages that background renewals show."""
        if isinstance(event, LeaseEnded | LossFound):
            if event.reason != "released":
                facts = {"kind": event.kind, "lock": event.name, "fence": event.fence, "reason": event.reason}
                self._write("warning", "lease_lost", facts)
        elif isinstance(event, RateLimitChecked):
            if event.store:
                self._record_answer(event.store, OutageTracker.now())
            if not event.is_allowed:
                self._write("info", "rate_limited", {"operation": event.verb})
        elif event.outcome == "unavailable":
            self._record_failure(event.error, OutageTracker.now())
        elif event.outcome == "success":
            self._record_answer(self._where, OutageTracker.now())

    def _wants_debug(self) -> bool:
        # Checked first: building a line costs more than a lock operation, and debug is mostly off.
        ask = getattr(self._log, "isEnabledFor", None)
        return ask is None or ask(logging.DEBUG)

    def _record_failure(self, error: BaseException | None, began_at: float) -> None:
        if self._outages[self._store_of(error)].record_failure(began_at):
            self._write("error", "store_unavailable", self._facts_of(error))

    def _record_answer(self, store: str, began_at: float) -> None:
        outage = self._outages[store].record_answer(began_at)
        if outage is not None:
            facts = {"seconds": round(outage.seconds, 3), "failures": outage.failures}
            self._write("info", "store_is_back", facts | {"store": store})

    def _facts_of(self, error: BaseException | None) -> dict[str, str]:
        fault = fault_of(error)
        if fault is None:
            return {}
        return {"fault": fault.kind, "code": fault.code, "store": self._store_of(error)}

    def _store_of(self, error: BaseException | None) -> str:
        return (isinstance(error, StoreUnavailable) and error.store) or self._where

    def _write(self, level: str, event: str, facts: dict[str, Any]) -> None:
        known = {name: value for name, value in facts.items() if value not in (None, "")}
        getattr(self._log, level)(event, **known | current_ids())


def json_logger(name: str = LOGGER) -> Any:
    """A structlog logger that writes JSON lines to the standard library's logger ``name``."""
    return structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ],
        cache_logger_on_first_use=False,
    )


def text_logger(name: str = LOGGER) -> Any:
    """A structlog logger that writes text lines: ``store_unavailable code='ECONNREFUSED' store='localhost:6379'``."""
    return structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, _as_text],
        cache_logger_on_first_use=False,
    )


def _as_text(_logger: Any, _level: str, line: MutableMapping[str, Any]) -> str:
    event = line.pop("event")
    line.pop("request_id", None)  # every line of the server begins with it
    return " ".join([str(event), *(f"{name}={value!r}" for name, value in line.items())])


class JsonFormatter(logging.Formatter):
    """Formats every record as JSON, with its extra fields and the current ids; leaves lines of `json_logger` as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._render = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)

    def format(self, record: logging.LogRecord) -> str:
        """Format one line."""
        message = record.getMessage()
        if record.name == LOGGER and message.startswith("{"):
            return message
        line: MutableMapping[str, Any] = {"event": message, "logger": record.name, "process": record.process}
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        line |= current_ids() | {"level": record.levelname.lower()}
        line["timestamp"] = structlog.processors.TimeStamper(fmt="iso", utc=True)(None, "", {})["timestamp"]
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return str(self._render(None, "", line))


_STANDARD_FIELDS = vars(logging.makeLogRecord({})).keys() | {
    "message",
    "asctime",
    "request_id",
    "color_message",
}
