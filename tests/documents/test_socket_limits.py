"""Allowed origins, and the rate limit of messages."""

from __future__ import annotations

import pytest

from leasehold import InvalidRequest
from leasehold.documents.live.limits import MessageRateLimiter, SocketLimits
from leasehold.documents.live.origins import is_allowed

APP = "https://app.example.com"


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "wiki.example.com"),
        (None, None),
        ("https://wiki.example.com", "wiki.example.com"),
        ("https://WIKI.example.com", "wiki.example.com:443"),
        ("http://wiki.example.com:80", "wiki.example.com"),
        ("http://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://[::1]:8000", "[::1]:8000"),
        (APP, "wiki.example.com"),
        ("https://APP.example.com/", "wiki.example.com"),
    ],
)
def test_pages_of_the_same_host_and_of_the_list_may_connect(origin, host) -> None:
    assert is_allowed(origin, host, [APP])


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example.com", "wiki.example.com"),
        ("https://wiki.example.com.evil.com", "wiki.example.com"),
        ("https://wiki.example.com:8443", "wiki.example.com"),
        ("http://127.0.0.1:8001", "127.0.0.1:8000"),
        ("http://app.example.com", "wiki.example.com"),
        ("null", "wiki.example.com"),
        ("", "wiki.example.com"),
        ("file://", ""),
        ("https://wiki.example.com:port", "wiki.example.com"),
        ("https://[", "wiki.example.com"),
        ("https://wiki.example.com", None),
    ],
)
def test_other_pages_may_not(origin, host) -> None:
    assert not is_allowed(origin, host, [APP])


def test_an_asterisk_allows_every_page() -> None:
    assert is_allowed("https://anywhere.example.com", "wiki.example.com", ["*"])


def test_a_burst_is_spent_and_comes_back_with_time() -> None:
    now = [0.0]
    allowance = MessageRateLimiter(SocketLimits(messages_per_second=2, burst=3), clock=lambda: now[0])
    assert [allowance.spend() for _ in range(4)] == [True, True, True, False]
    now[0] = 0.4
    assert not allowance.spend()
    now[0] = 0.6
    assert allowance.spend()
    now[0] = 1000
    assert [allowance.spend() for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("name", SocketLimits.__slots__)
def test_a_limit_of_zero_is_refused(name) -> None:
    with pytest.raises(InvalidRequest):
        SocketLimits(**{name: 0})
