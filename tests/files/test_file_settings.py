"""Settings of file locks, in code and by the environment."""

from __future__ import annotations

from typing import Any

import pytest

import leasehold
from leasehold.files import FileSettings


def test_the_defaults_are_those_that_are_promised() -> None:
    settings = FileSettings()
    assert (settings.ttl, settings.max_ttl, settings.wait) == (30, 300, 5)
    assert (settings.history_ttl, settings.rate_limit, settings.rate_limit_url) == (None, None, None)
    assert FileSettings.from_environment({}) == settings


def test_every_variable_is_read() -> None:
    settings = FileSettings.from_environment(
        {
            "LOCK_TTL_MS": "45000",
            "LOCK_HISTORY_TTL_SEC": "3600",
            "LOCK_RATE_LIMIT_PER_MIN": "120",
            "LOCK_RATE_LIMIT_WINDOW_MS": "30000",
            "ORCHESTRATOR_RATE_LIMIT_BACKEND": "redis",
            "ORCHESTRATOR_RATE_LIMIT_REDIS_URL": "redis://limits:6379/0",
            "RATE_LIMIT_REDIS_URL": "redis://other:6379/0",
            "PATH": "/bin",
        }
    )
    assert settings == FileSettings(
        ttl=45,
        history_ttl=3600,
        rate_limit=120,
        rate_window=30,
        rate_limit_url="redis://limits:6379/0",
    )


def test_the_shorter_name_of_the_url_will_do_and_memory_needs_none() -> None:
    short = {"ORCHESTRATOR_RATE_LIMIT_BACKEND": "redis", "RATE_LIMIT_REDIS_URL": "redis://x"}
    assert FileSettings.from_environment(short).rate_limit_url == "redis://x"
    memory = {"ORCHESTRATOR_RATE_LIMIT_BACKEND": "memory", "RATE_LIMIT_REDIS_URL": "redis://x"}
    assert FileSettings.from_environment(memory).rate_limit_url is None
    assert FileSettings.from_environment({"RATE_LIMIT_REDIS_URL": "redis://x"}).rate_limit_url is None


def test_an_empty_value_counts_as_not_set() -> None:
    assert (
        FileSettings.from_environment({"LOCK_TTL_MS": "", "LOCK_RATE_LIMIT_PER_MIN": " "}) == FileSettings()
    )


@pytest.mark.parametrize(
    "name", ["LOCK_TTL_MS", "LOCK_HISTORY_TTL_SEC", "LOCK_RATE_LIMIT_PER_MIN", "LOCK_RATE_LIMIT_WINDOW_MS"]
)
@pytest.mark.parametrize("text", ["-1", "0", "1.5", "ten", "1e3", "٣", "9" * 30, "1000000000001"])
def test_a_variable_that_is_no_number_or_out_of_bounds_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(leasehold.InvalidRequest) as refused:
        FileSettings.from_environment({name: text})
    assert str(refused.value) == f"{name} must be a whole number from 1 to 1000000000000, not {text!r}"


def test_the_longest_ttl_that_can_be_written_is_read_and_leading_zeros_do_not_count() -> None:
    for text in ("1000000000000", "0" * 30 + "1000000000000"):
        assert FileSettings.from_environment({"LOCK_TTL_MS": text}).ttl == 10**9


def test_an_unknown_backend_and_one_without_an_address_are_refused() -> None:
    with pytest.raises(leasehold.InvalidRequest, match="must be 'memory' or 'redis', not 'etcd'"):
        FileSettings.from_environment({"ORCHESTRATOR_RATE_LIMIT_BACKEND": "etcd"})
    with pytest.raises(leasehold.InvalidRequest, match="needs ORCHESTRATOR_RATE_LIMIT_REDIS_URL"):
        FileSettings.from_environment({"ORCHESTRATOR_RATE_LIMIT_BACKEND": "redis"})


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("rate_limit", -1, "rate_limit must be a whole number from 1 to 1000000, or None, not -1"),
        ("rate_limit", 0, "rate_limit must be a whole number from 1 to 1000000, or None, not 0"),
        ("rate_limit", True, "rate_limit must be a whole number from 1 to 1000000, or None, not True"),
        ("rate_limit", 2.5, "rate_limit must be a whole number from 1 to 1000000, or None, not 2.5"),
        ("rate_window", -1, "rate_window must be a number of seconds from 0.001 to 86400, not -1"),
        ("ttl", 0, "ttl must be a number of seconds from 0.01, not 0"),
        ("ttl", float("nan"), "ttl must be a number of seconds from 0.01, not nan"),
        ("max_ttl", 301, "max_ttl must be a number of seconds from 0.01 to 300, not 301"),
        ("history_ttl", -5, "history_ttl must be a number of seconds from 1 to 2.592e+06, not -5"),
        ("session_ttl", "long", "session_ttl must be a number of seconds from 1 to 2.592e+06, not 'long'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(leasehold.InvalidRequest) as refused:
        FileSettings(**{option: value})
    assert str(refused.value) == message


def test_the_address_of_the_limits_is_not_shown() -> None:
    assert "hunter2" not in repr(FileSettings(rate_limit_url="redis://:hunter2@host"))
