"""Structured logs of operations on locks: JSON, with the ids of the trace and the request, and never a secret."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from leasehold.core.observer import LeaseEnded, LossFound, RateLimitChecked
from leasehold.errors import StoreUnavailable
from leasehold.observe.extra import missing_extra
from leasehold.runtime.outages import OutageTracker
from leasehold.valkey.transport.error_mapping import fault_of

try:
    import structlog

    from leasehold.observe.propagation import current_ids
except ModuleNotFoundError as missing:
    raise missing_extra(__name__, missing) from missing

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from leasehold.core.observer import Event, Operation, Outcome, Result

LOGGER = "leasehold.observe"
"""The logger of the standard library that the lines go to, unless the application brings one of structlog's."""

# Only these show that the store answers: giving back twice, say, is done without asking it.
_ANSWERED = frozenset({"success", "busy", "timeout", "refused", "nothing"})
_LEVELS: dict[Outcome, str] = {"lost": "warning", "refused": "error", "error": "warning"}


class LoggingObserver:
    """Implements `leasehold.core.observer.Observer`.

    Operations are told at ``debug``, what they were refused for at ``warning`` or ``error``, and so is each lease
    that is lost. A store that does not answer is told once, at ``error``, and once more when it is back; each store
    for itself, where rate limits are counted in another one.
    """

    def __init__(self, logger: Any = None, *, where: str = "") -> None:
        self._log = logger or json_logger()
        self._where = where
        self._outages: defaultdict[str, OutageTracker] = defaultdict(OutageTracker)

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """Write down how it ends."""
        began_at = OutageTracker.now()

        def end(result: Result) -> None:
            if result.outcome == "unavailable":
                self._note_failure(result.error, began_at)
            elif result.outcome in _ANSWERED and operation.verb != "release":
                self._note_answer(self._where, began_at)
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
        """Write down losses, and what renewals in the background say of the store."""
        if isinstance(event, LeaseEnded | LossFound):
            if event.reason != "released":
                facts = {"kind": event.kind, "lock": event.name, "fence": event.fence, "reason": event.reason}
                self._write("warning", "lease_lost", facts)
        elif isinstance(event, RateLimitChecked):
            if event.store:
                self._note_answer(event.store, OutageTracker.now())
            if not event.is_allowed:
                self._write("info", "rate_limited", {"operation": event.verb})
        elif event.outcome == "unavailable":
            self._note_failure(event.error, OutageTracker.now())
        elif event.outcome == "success":
            self._note_answer(self._where, OutageTracker.now())

    def _wants_debug(self) -> bool:
        # Asked first: to make a line costs more than to lock, and mostly nobody reads it.
        ask = getattr(self._log, "isEnabledFor", None)
        return ask is None or ask(logging.DEBUG)

    def _note_failure(self, error: BaseException | None, began_at: float) -> None:
        if self._outages[self._store_of(error)].record_failure(began_at):
            self._write("error", "store_unavailable", self._facts_of(error))

    def _note_answer(self, store: str, began_at: float) -> None:
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
    """A logger of structlog's whose lines are JSON, and go to the logger ``name`` of the standard library."""
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
    """The same for people: ``store_unavailable code='ECONNREFUSED' store='localhost:6379'``."""
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
    """Writes every record as JSON, with its extra fields and the current ids; those of `json_logger` as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._render = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message = record.getMessage()
        if record.name == LOGGER and message.startswith("{"):
            return message
        line: MutableMapping[str, Any] = {"event": message, "logger": record.name, "process": record.process}
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        line |= current_ids() | {"level": record.levelname.lower()}
        line["timestamp"] = structlog.processors.TimeStamper(fmt="iso", utc=True)(None, "", {})["timestamp"]
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return str(self._render(None, "", line))


_USUAL = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "request_id", "color_message"}
