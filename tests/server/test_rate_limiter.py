"""Rate limits: a budget for each kind of request and each caller, at low cost."""

from __future__ import annotations

import time

import pytest
from starlette.requests import Request
from tests.server.conftest import ON_SQLITE, MakeApp, MakeSettings, client_of

from leasehold.errors import RateLimited
from leasehold.server.auth.dependencies import budget_of
from leasehold.server.http.rate_limiter import RateLimiter, Windows, address_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_caller_over_the_limit_gets_a_time_to_retry(clock: Clock) -> None:
    limiter = RateLimiter({"acquire": "2/minute"}, clock=clock)
    limiter.spend("acquire", "ana")
    clock.now += 20
    limiter.spend("acquire", "ana")
    with pytest.raises(RateLimited) as told:
        limiter.spend("acquire", "ana")
    assert told.value.retry_after == pytest.approx(40)
    clock.now += 40
    limiter.spend("acquire", "ana")


def test_a_refused_request_uses_no_budget(clock: Clock) -> None:
    limiter = RateLimiter({"content": "100/minute"}, clock=clock)
    limiter.spend("content", "ana", 70)
    with pytest.raises(RateLimited) as told:
        limiter.spend("content", "ana", 31)
    assert told.value.retry_after == pytest.approx(60)
    limiter.spend("content", "ana", 30)
    limiter.spend("content", "ana", 0)
    limiter.spend("content", "ben", 100)
    with pytest.raises(RateLimited):
        limiter.spend("content", "ana", 1)


def test_callers_and_budgets_are_independent(clock: Clock) -> None:
    limiter = RateLimiter({"acquire": "1/minute", "keep": "1/minute"}, clock=clock)
    limiter.spend("acquire", "ana")
    limiter.spend("acquire", "ben")
    limiter.spend("keep", "ana")
    with pytest.raises(RateLimited):
        limiter.spend("acquire", "ana")


def test_a_limit_can_be_off(clock: Clock) -> None:
    limiter = RateLimiter({"acquire": "off"}, clock=clock)
    for _ in range(1000):
        limiter.spend("acquire", "ana")


def test_names_with_slashes_are_distinct_callers(clock: Clock) -> None:
    limiter = RateLimiter({"acquire": "1/minute", "other": "1/minute"}, clock=clock)
    limiter.spend("other", "acquire/ana")
    limiter.spend("acquire", "ana")


def test_expired_counters_are_removed(clock: Clock) -> None:
    windows = Windows(clock)
    for number in range(10_000):
        windows.incr(str(number), 60)
    assert len(windows) == 10_000
    clock.now += 60
    windows.incr("one more", 60)
    assert len(windows) == 1


def test_the_windows_count_as_the_library_expects(clock: Clock) -> None:
    windows = Windows(clock)
    assert windows.check()
    assert [windows.incr("a", 60), windows.incr("a", 60, 3), windows.get("a")] == [1, 4, 4]
    assert windows.get_expiry("a") == clock.now + 60
    assert windows.get("b") == 0
    windows.clear("a")
    assert windows.get("a") == 0
    windows.incr("a", 60)
    assert (windows.reset(), len(windows)) == (1, 0)


@pytest.mark.parametrize(
    ("request_line", "budget"),
    [
        ("POST /api/documents/1/lock", "acquire"),
        ("POST /api/documents/1/lock/force-take", "acquire"),
        ("POST /api/documents/1/lock/heartbeat", "keep"),
        ("DELETE /api/documents/1/lock", "keep"),
        ("PUT /api/documents/1/content", "keep"),
        ("GET /api/documents/1/lock", "other"),
        ("POST /api/documents", "other"),
        ("POST /api/applications/lock", "other"),
    ],
)
def test_renewing_a_lock_never_uses_the_budget_of_acquiring(request_line: str, budget: str) -> None:
    method, _, path = request_line.partition(" ")
    assert budget_of(method, path) == budget


@pytest.mark.parametrize(
    ("host", "counted_as"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.8", "192.0.2.8"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),
        ("testclient", "testclient"),
        (None, "unknown"),
    ],
)
def test_an_address_is_the_network_of_one_caller(host: str | None, counted_as: str) -> None:
    scope = {"type": "http", "headers": [], "client": (host, 1) if host else None}
    assert address_of(Request(scope)) == counted_as


def test_a_check_is_cheap() -> None:
    limiter = RateLimiter({"acquire": "1000000/minute"})
    best = min(_microseconds_each(limiter) for _ in range(5))
    assert best < 200, f"{best:.0f} µs each"  # 4 on a quiet machine


def _microseconds_each(limiter: RateLimiter, times: int = 2000) -> float:
    began_at = time.process_time()
    for _ in range(times):
        limiter.spend("acquire", "ana")
    return (time.process_time() - began_at) / times * 1e6


@ON_SQLITE
async def test_sign_ins_are_limited_by_address(make_app: MakeApp, make_settings: MakeSettings) -> None:
    app = await make_app(make_settings(rate_sign_in="2/minute"))
    asked = {"email": "nobody@example.com", "password": "wrong password"}
    async with client_of(app) as here, client_of(app, client=("10.9.9.9", 5)) as elsewhere:
        answers = [await here.post("/api/auth/login", json=asked) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [401, 401, 429]
        assert answers[2].json()["code"] == "rate_limited"
        assert 1 <= int(answers[2].headers["retry-after"]) <= 60
        assert (await elsewhere.post("/api/auth/login", json=asked)).status_code == 401


@ON_SQLITE
async def test_requests_without_a_login_are_limited_by_address(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    app = await make_app(make_settings(rate_other="2/minute"))
    async with client_of(app) as client:
        codes = [(await client.post("/api/auth/refresh")).status_code for _ in range(3)]
    assert codes == [401, 401, 429]
