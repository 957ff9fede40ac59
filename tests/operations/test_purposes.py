"""Purposes: their parts, and that all errors are reported on creation."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold import InvalidRequest
from leasehold.core.validation import MAX_TTL
from leasehold.operations import STANDARD, Purpose, Purposes


def test_the_seven_required_purposes_exist_with_their_times() -> None:
    assert {name: (purpose.pattern, purpose.ttl) for name, purpose in STANDARD.items()} == {
        "deal": ("deal:{deal_id}", 30),
        "payout": ("payout:{deal_id}", 60),
        "refund": ("refund:{deal_id}", 60),
        "deposit": ("deposit:{deal_id}", 30),
        "balance": ("balance:{account_id}", 10),
        "outbox_poller": ("outbox:poller", 30),
        "reconciliation": ("reconciliation", 300),
    }
    for purpose in STANDARD.values():
        assert purpose.renew
        assert purpose.wait in {0, 5}
        assert purpose.max_hold is not None
        assert purpose.max_hold > purpose.ttl


def test_the_namespace_in_front_of_a_pattern_is_left_to_the_client() -> None:
    assert Purpose("deal", "lock:deal:{deal_id}") == Purpose("deal", "deal:{deal_id}")
    assert Purpose("deal", "lock:deal:{deal_id}").lock_name(deal_id=42) == "deal:42"


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 7


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (42, "42"),
        (-1, "-1"),
        ("42", "42"),
        ("a b", "a b"),
        ("a:b", "a%3Ab"),
        ("50%", "50%25"),
        (UUID("12345678-1234-5678-1234-567812345678"), "12345678-1234-5678-1234-567812345678"),
        (date(2026, 11, 17), "2026-11-17"),
        (Colour.RED, "red"),
        (Size.BIG, "7"),
    ],
)
def test_a_value_becomes_part_of_the_name(value, written) -> None:
    assert Purpose("x", "x:{v}").lock_name(v=value) == f"x:{written}"


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        " ",
        " 42",
        "42\n",
        "a\0b",
        float("nan"),
        1.0,
        True,
        Decimal(42),
        b"42",
        object(),
        [42],
        datetime(2026, 11, 17, tzinfo=UTC),
        "x" * 600,
        "\ud800",
    ],
)
def test_an_empty_value_or_one_with_several_spellings_is_refused(value) -> None:
    with pytest.raises(InvalidRequest, match="purpose 'x'"):
        Purpose("x", "x:{v}").lock_name(v=value)


@given(
    st.lists(st.text("ab%35A", min_size=1, max_size=4), min_size=3, max_size=4), st.sampled_from([":", "%3A"])
)
@settings(deadline=None)
def test_different_values_never_share_a_name(parts: list[str], joint: str) -> None:
    purpose = Purpose("transfer", "transfer:{source}:{target}")
    one = (parts[0], joint.join(parts[1:]))
    other = (joint.join(parts[:-1]), parts[-1])
    names = {purpose.lock_name(source=source, target=target) for source, target in (one, other)}
    assert len(names) == len({one, other})


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({}, "deal_id is missing"),
        ({"deal": 1}, "deal_id is missing, deal is unknown"),
        ({"deal_id": 1, "more": 2}, "more is unknown"),
    ],
)
def test_missing_and_surplus_parameters_are_named(parameters, told) -> None:
    with pytest.raises(InvalidRequest, match=rf"purpose 'deal': 'deal:\{{deal_id\}}' takes deal_id: {told}"):
        STANDARD["deal"].lock_name(**parameters)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "lock:",
        ":deal",
        "deal:",
        "deal::x",
        "deal:{}",
        "deal:{deal id}",
        "deal:{deal_id",
        "deal:deal_id}",
        "deal:{1}",
        "deal-{deal_id}",
        "{a}{b}",
        "{a}:{a}",
        "deal:{class}",
        "deal {x}",
        "50%:{x}",
        "x" * 600,
        None,
        7,
        ["deal"],
    ],
)
def test_a_malformed_pattern_is_refused(pattern) -> None:
    with pytest.raises(InvalidRequest, match=r"pattern|name"):
        Purpose("x", pattern)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("name", "Payout"),
        ("name", "pay-out"),
        ("name", ""),
        ("name", None),
        ("ttl", 0),
        ("ttl", -1),
        ("ttl", MAX_TTL + 1),
        ("ttl", float("nan")),
        ("ttl", "30"),
        ("ttl", None),
        ("wait", -1),
        ("wait", 1e12),
        ("wait", "5"),
        ("retry_interval", 0),
        ("retry_interval", float("inf")),
        ("retry_interval", 50),
        ("renew", "yes"),
        ("renew", 1),
        ("max_hold", 0),
        ("max_hold", True),
    ],
)
def test_a_setting_out_of_bounds_is_refused(setting, value) -> None:
    with pytest.raises(InvalidRequest, match=setting):
        Purpose(**{"name": "payout", "pattern": "payout:{deal_id}", setting: value})


def test_all_errors_of_a_purpose_are_reported_at_once() -> None:
    with pytest.raises(InvalidRequest) as caught:
        Purpose("payout", "payout:{", ttl=0, wait=-1, renew=None, max_hold=-1)
    for word in ("pattern", "ttl", "wait", "renew", "max_hold"):
        assert word in str(caught.value)


def test_two_purposes_with_the_same_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="two purposes named 'deal'"):
        Purposes([*STANDARD.values(), Purpose("deal", "other:{deal_id}")])


def test_an_unknown_purpose_is_reported_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"no purpose 'pay'; known purposes: deal, payout"):
        STANDARD.find("pay")


def test_a_purpose_is_a_value() -> None:
    assert Purpose("a", "a:{x}", ttl=30) == Purpose("a", "a:{x}")
    assert len({Purpose("a", "a:{x}"), Purpose("a", "a:{x}")}) == 1
    with pytest.raises(AttributeError):
        STANDARD["deal"].ttl = 5
