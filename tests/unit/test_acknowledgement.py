"""Which replies need to be acknowledged by replicas, and the errors in the place of those that are not."""

from __future__ import annotations

import pytest

from leasehold.core.replies import NotReplicated
from leasehold.errors import StoreUnavailable
from leasehold.valkey.transport import codec
from leasehold.valkey.transport.acknowledgement import Acknowledgement
from leasehold.valkey.transport.error_mapping import fault_of

GRANTS = [
    77,  # acquire; renew
    1,
    [77, 30_000, b""],
    [[77, 30_000], [78, 30_000]],  # several locks
    [b"granted", b"{}"],
    [b"extended", b"{}"],
    [b"saved", b"{}"],
    [b"of a later version", b"{}"],
    [],
    None,
]
REFUSALS = [
    0,
    -1,
    [0, 1_500, b"", b"x", 1, 0, 0],
    [-2, 0, b""],
    [b"busy", b"{}"],
    [b"lost", b"{}"],
    [b"asked", b"{}"],
    codec.ReplyError("TOOLATE 5"),
    codec.ReplyError("NOSCRIPT"),
    StoreUnavailable("no reply"),
]


@pytest.fixture
def acknowledgement() -> Acknowledgement:
    return Acknowledgement(2, timeout=5)


@pytest.mark.parametrize("number", [2, 3])
def test_enough_replicas_leave_every_reply_as_it_is(acknowledgement, number):
    assert acknowledgement.check([*GRANTS, *REFUSALS], number) == [*GRANTS, *REFUSALS]


@pytest.mark.parametrize("refusal", REFUSALS, ids=repr)
def test_a_refusal_needs_no_replica(acknowledgement, refusal):
    assert acknowledgement.check([refusal], 0) == [refusal]


@pytest.mark.parametrize("grant", GRANTS, ids=repr)
def test_a_grant_that_too_few_have_names_both_numbers_and_the_time(acknowledgement, grant):
    (error,) = acknowledgement.check([grant], 1)
    assert isinstance(error, NotReplicated)
    assert str(error) == "not replicated: 1 of 2 replicas (min_replicas) acknowledged it within 1.25 s"
    assert fault_of(error).code == "NOREPLICAS"


def test_each_caller_gets_an_error_of_its_own(acknowledgement):
    one, two = acknowledgement.check([1, 1], 0)
    assert one is not two


def test_a_primary_that_became_a_replica_has_not_replicated(acknowledgement):
    (error,) = acknowledgement.check([1], codec.ReplyError("UNBLOCKED instance state changed"))
    assert isinstance(error, NotReplicated)
    assert "UNBLOCKED" in str(error)


def test_a_grant_whose_acknowledgement_got_lost_is_unknown(acknowledgement):
    (error,) = acknowledgement.check([1], StoreUnavailable("the connection was lost"))
    assert type(error) is StoreUnavailable


def test_the_wait_always_ends_and_before_the_request_times_out():
    # 0 would wait for ever.
    assert b"\r\n$1\r\n1\r\n" in Acknowledgement(2, timeout=0.001).request
    assert b"\r\n1250\r\n" in Acknowledgement(2, timeout=5).request
