"""Structured logs: JSON with the ids of trace and request, one line for an outage, and no secrets."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.observe.recorder import SCRIPTED, play
from tests.support.eventually import LIMIT, eventually, eventually_async

import leasehold
from leasehold.observe import observe
from leasehold.observe.logging import LOGGER, JsonFormatter, text_logger
from leasehold.observe.propagation import continued
from leasehold.runtime.outages import OutageTracker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Lines:
    """What has been written, line by line."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def of(self, *events: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["event"] in events]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What the logger of the observers writes, all of it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield Lines(stream)
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def watch(locks: Any, **options: Any) -> None:
    observe(locks, metrics=False, tracing=False, **options)


async def test_every_operation_is_a_line_of_json(valkey: Server, lines: Lines) -> None:
    async with leasehold.connect(valkey.url) as locks:
        watch(locks)
        await play(locks)
    told = [line for line in lines.all() if line["event"] != "lease_lost"]
    assert [(line["kind"], line["event"], line["outcome"]) for line in told] == SCRIPTED
    assert all(line["timestamp"].endswith("Z") for line in told)
    assert told[0]["fence"] > 0
    (lost,) = lines.of("lease_lost")
    assert (lost["lock"], lost["reason"], lost["level"]) == ("b", "taken", "warning")


async def test_lines_carry_the_ids_of_trace_and_request(valkey: Server, lines: Lines) -> None:
    async with leasehold.connect(valkey.url) as locks:
        watch(locks)
        with continued({"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01", "x-request-id": "request-7"}):
            lease = await locks.acquire("a")
        await lease.release()
    acquired, released = lines.all()
    ids = {name: acquired.get(name) for name in ("trace_id", "span_id", "request_id")}
    assert ids == {"trace_id": TRACE_ID, "span_id": SPAN_ID, "request_id": "request-7"}
    assert not {"trace_id", "span_id", "request_id"} & released.keys()


async def test_a_line_is_written_inside_the_span_of_its_operation(valkey: Server, lines: Lines) -> None:
    provider = TracerProvider()
    async with leasehold.connect(valkey.url) as locks:
        observe(locks, metrics=False, tracer_provider=provider)
        with provider.get_tracer("test").start_as_current_span("caller") as caller:
            await (await locks.acquire("a")).release()
    provider.shutdown()
    here = caller.get_span_context()
    assert {line["trace_id"] for line in lines.all()} == {f"{here.trace_id:032x}"}
    spans = {line["span_id"] for line in lines.all()}
    assert len(spans) == 2
    assert f"{here.span_id:016x}" not in spans


async def test_an_outage_is_logged_once_and_so_is_its_end(
    own_server: Callable[..., Server], lines: Lines
) -> None:
    store = own_server("valkey9")
    async with leasehold.connect(store.url, timeout=3) as locks:
        watch(locks)
        for outage in (1, 2):
            await (await locks.acquire("a")).release()
            store.kill()
            with pytest.raises(leasehold.StoreUnavailable):
                await locks.acquire("a", wait=0)
            await asyncio.gather(*(locks.acquire(str(n), wait=0) for n in range(5)), return_exceptions=True)
            assert len(lines.of("store_unavailable")) == outage
            assert len(lines.of("store_is_back")) == outage - 1
            store.start()

            async def works() -> bool:
                return (await locks.inspect("a")).name == "a"

            await eventually_async(lambda: _quietly(works))
            assert len(lines.of("store_is_back")) == outage
    first = lines.of("store_unavailable")[0]
    assert {name: first[name] for name in ("fault", "code", "store", "level")} == {
        "fault": "unavailable",
        "code": "ECONNREFUSED",
        "store": f"127.0.0.1:{store.port}",
        "level": "error",
    }
    back = lines.of("store_is_back")[0]
    assert back["failures"] >= 6
    assert back["seconds"] > 0
    assert back["level"] == "info"


async def _quietly(ask: Callable[[], Any]) -> bool:
    try:
        return await ask()
    except leasehold.StoreUnavailable:
        return False


async def test_an_outage_that_only_renewals_meet_is_logged(
    own_server: Callable[..., Server], lines: Lines
) -> None:
    store = own_server("valkey9")
    async with leasehold.connect(store.url, timeout=2) as locks:
        watch(locks)
        lease = await locks.acquire("a", ttl=9, renew=True)
        store.pause()
        await lease.lost(LIMIT)
        store.resume()
    assert len(lines.of("store_unavailable")) == 1
    (lost,) = lines.of("lease_lost")
    assert lost["reason"] == "expired"


def test_threads_log_an_outage_once(own_server: Callable[..., Server], lines: Lines) -> None:
    store = own_server("valkey9")
    with leasehold.blocking.connect(store.url, timeout=3) as locks:
        watch(locks)
        locks.acquire("a").release()
        store.kill()
        for _ in range(3):
            with pytest.raises(leasehold.StoreUnavailable):
                locks.acquire("a", wait=0)
        store.start()

        def works() -> bool:
            try:
                return locks.inspect("a").name == "a"
            except leasehold.StoreUnavailable:
                return False

        eventually(works)
    assert [line["event"] for line in lines.of("store_unavailable", "store_is_back")] == [
        "store_unavailable",
        "store_is_back",
    ]


def test_calls_that_overlap_an_outage_do_not_report_it_twice() -> None:
    outages = OutageTracker()
    early = outages.now()
    assert outages.record_failure(outages.now())
    assert outages.record_answer(early) is None, "it was asked before the store failed"
    assert not outages.record_failure(early)
    over = outages.record_answer(outages.now())
    assert over is not None
    assert over.failures == 2
    assert not outages.record_failure(early), "what it met is over"
    assert outages.record_failure(outages.now()), "but this is a new one"


async def test_a_refusal_of_the_store_is_logged_with_its_code(
    own_server: Callable[..., Server], lines: Lines
) -> None:
    store = own_server("valkey9")
    async with leasehold.connect(store.url) as locks:
        watch(locks)
        await locks.inspect("a")
        store.call("CONFIG", "SET", "min-replicas-to-write", "1")
        with pytest.raises(leasehold.StoreRefused):
            await locks.acquire("a", wait=0)
    (refused,) = [line for line in lines.all() if line["outcome"] == "refused"]
    assert (refused["error"], refused["fault"], refused["code"]) == ("store_refused", "refused", "NOREPLICAS")
    assert refused["level"] == "error"


async def test_no_secret_is_in_a_line(own_server: Callable[..., Server], lines: Lines) -> None:
    store = own_server("valkey9", user=["holder on >PASSWORD-CANARY ~* &* +@all"])
    tokens: list[str] = []

    def fail() -> None:
        raise ValueError("the message is RESULT-CANARY")

    url = f"redis://holder:PASSWORD-CANARY@127.0.0.1:{store.port}"
    async with leasehold.connect(url, timeout=3) as locks:
        watch(locks)
        tokens.append((await locks.acquire("a")).token)
        lease = await locks.take("a")
        tokens.append(lease.token)
        with pytest.raises(ValueError, match="CANARY"):
            await locks.once("job", fail)
        store.call("ACL", "SETUSER", "holder", ">OTHER-CANARY", "<PASSWORD-CANARY")
        store.call("CLIENT", "KILL", "USER", "holder")
        with pytest.raises(leasehold.StoreError):
            await locks.acquire("b", wait=0)
        store.kill()
        with pytest.raises(leasehold.StoreError):
            await lease.renew()
    assert {"success", "error", "refused"} <= {line["outcome"] for line in lines.all() if "outcome" in line}
    assert "CANARY" not in lines.text
    assert [token for token in tokens if token in lines.text] == []


async def test_an_application_can_pass_its_own_logger(
    valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "own")
    async with leasehold.connect(valkey.url) as locks:
        watch(locks, logger=text_logger("own"))
        lease = await locks.acquire("a")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "own"]
    assert line.startswith("acquire kind='lock' lock='a' outcome='success'")
    assert f"fence={lease.fence}" in line


def test_records_of_other_loggers_become_json_too() -> None:
    formatter = JsonFormatter()
    record = logging.makeLogRecord(
        {
            "name": "leasehold.audit",
            "levelname": "INFO",
            "msg": "granted %s",
            "args": ("x",),
            "action": "lock_granted",
        }
    )
    line = json.loads(formatter.format(record))
    assert (line["event"], line["level"], line["action"]) == ("granted x", "info", "lock_granted")
    assert line["logger"] == "leasehold.audit"
    ours = logging.makeLogRecord({"name": LOGGER, "msg": '{"event": "acquire"}'})
    assert json.loads(formatter.format(ours)) == {"event": "acquire"}
