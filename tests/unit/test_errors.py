"""The error tree is public: names, codes and parents do not change."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import leasehold
from leasehold import errors
from leasehold.errors import (
    AcquireTimeout,
    AlreadyExists,
    FileBusy,
    FileChanged,
    FileTimeout,
    InProgress,
    InvalidRequest,
    LeaseholdError,
    LeaseLost,
    LockBusy,
    NotAllowed,
    NotFound,
    NotSignedIn,
    QuotaExceeded,
    RateLimited,
    StaleFence,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    UpgradeRefused,
)

# Published: REST problem types, socket codes, CLI exit keys and TypeScript tags. Never changed, only added to.
CODES = {
    LeaseholdError: "leasehold_error",
    LockBusy: "lock_busy",
    AcquireTimeout: "acquire_timeout",
    LeaseLost: "lease_lost",
    InProgress: "in_progress",
    StaleFence: "stale_fence",
    StoreError: "store_error",
    StoreUnavailable: "store_unavailable",
    StoreRefused: "store_refused",
    InvalidRequest: "invalid_request",
    RateLimited: "rate_limited",
    NotSignedIn: "not_signed_in",
    NotAllowed: "not_allowed",
    QuotaExceeded: "quota_exceeded",
    NotFound: "not_found",
    AlreadyExists: "already_exists",
    FileBusy: "file_busy",
    FileTimeout: "file_timeout",
    UpgradeRefused: "upgrade_refused",
    FileChanged: "file_changed",
}

PARENTS = {
    LeaseholdError: (Exception,),
    LockBusy: (LeaseholdError,),
    AcquireTimeout: (LockBusy, TimeoutError),
    LeaseLost: (LeaseholdError,),
    InProgress: (LeaseholdError,),
    StaleFence: (LeaseholdError,),
    StoreError: (LeaseholdError,),
    StoreUnavailable: (StoreError,),
    StoreRefused: (StoreError,),
    InvalidRequest: (LeaseholdError, ValueError),
    RateLimited: (LeaseholdError,),
    NotSignedIn: (LeaseholdError,),
    NotAllowed: (LeaseholdError,),
    QuotaExceeded: (NotAllowed,),
    NotFound: (LeaseholdError,),
    AlreadyExists: (LeaseholdError,),
    FileBusy: (LockBusy,),
    FileTimeout: (FileBusy, AcquireTimeout),
    UpgradeRefused: (FileBusy,),
    FileChanged: (LeaseholdError,),
}

EXAMPLES = [
    LeaseholdError("anything"),
    LockBusy("deal:42", holder={"user": "alice", "tab": 1}, retry_after=2.5),
    LockBusy("deal:42"),
    LockBusy("deal:42", holder="alice", retry_after=2.5, held_since=1.7e9, mode="shared", waiters=3),
    LockBusy("deal:42", message="in other words"),
    AcquireTimeout("deal:42", waited=5, holder="alice", retry_after=2.5),
    AcquireTimeout("deal:42", waited=5, held_since=1.7e9, mode="exclusive", waiters=2, position=1),
    LeaseLost("deal:42", "taken"),
    InProgress("payout:42 is running"),
    StaleFence(seen=8, given=7),
    StoreError("anything"),
    StoreUnavailable("no answer"),
    StoreRefused("out of memory"),
    InvalidRequest("ttl must be above 0"),
    RateLimited("slow down", retry_after=1.5),
    NotSignedIn("the token has ended"),
    NotAllowed("viewers cannot edit"),
    QuotaExceeded("no space left"),
    NotFound("no such document"),
    AlreadyExists("this address is registered"),
    FileBusy("src/app.py", reason="room_busy", holder="editors", retry_after=9, message="people edit it"),
    FileTimeout("src/app.py", waited=5, reason="lock_timeout", holder={"session": "agent-7"}, position=2),
    UpgradeRefused("src/app.py", reason="lock_contended", mode="shared"),
    FileChanged("src/app.py", seen="", found="abc"),
]


def every_class():
    return {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)}


def test_every_error_is_in_the_tables_of_this_test():
    assert every_class() == set(CODES) == set(PARENTS)


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_an_error_keeps_its_place_in_the_tree_and_its_code(kind):
    assert kind.__bases__ == PARENTS[kind]
    assert kind.code == CODES[kind]
    assert "code" in vars(kind)  # its own, not its parent's


def test_no_two_errors_share_a_code():
    assert len({kind.code for kind in every_class()}) == len(every_class())


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_every_error_is_importable_from_leasehold(kind):
    assert getattr(leasehold, kind.__name__) is kind
    assert kind.__name__ in leasehold.__all__


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_names_every_error(kind):
    assert kind.__name__ in (errors.__doc__ or "")
    assert kind.__doc__


def test_a_timeout_is_caught_as_a_timeout_and_as_busy():
    for kind in (TimeoutError, LockBusy, LeaseholdError):
        with pytest.raises(kind):
            raise AcquireTimeout("a", waited=1)


def test_a_wrong_argument_is_caught_as_a_value_error():
    with pytest.raises(ValueError, match="ttl"):
        raise InvalidRequest("ttl must be above 0")


def test_busy_names_the_holder_and_the_remaining_time():
    message = str(LockBusy("deal:42", holder="alice", retry_after=2.53))
    assert "'deal:42'" in message
    assert "alice" in message
    assert "2.5 s" in message


def test_busy_without_a_known_holder_has_a_shorter_message():
    assert str(LockBusy("deal:42")) == "'deal:42' is held"


def test_a_timeout_says_how_long_it_waited():
    assert "waited 5.0 s" in str(AcquireTimeout("deal:42", waited=5, holder={"user": "alice"}))
    assert "user=alice" in str(AcquireTimeout("deal:42", waited=5, holder={"user": "alice"}))


def test_a_timeout_says_which_place_in_the_queue_it_had():
    error = AcquireTimeout("deal:42", waited=5, position=3, waiters=7)
    assert "number 3 in the queue" in str(error)
    assert (error.position, error.waiters) == (3, 7)
    assert "queue" not in str(AcquireTimeout("deal:42", waited=5))


def test_busy_without_details_has_no_time_mode_and_queue():
    error = LockBusy("deal:42")
    assert (error.holder, error.retry_after, error.held_since, error.mode, error.position) == (None,) * 5
    assert error.waiters == 0


@pytest.mark.parametrize("reason", ["expired", "taken", "released", "max_hold"])
def test_a_loss_says_its_reason(reason):
    lost = LeaseLost("deal:42", reason)
    assert lost.reason == reason
    assert lost.name == "deal:42"
    assert reason in str(lost)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "duplicate", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"]
)
def test_an_error_survives_the_way_to_another_process(error, duplicate):
    """A worker of a process pool raises it, the parent catches it."""
    arrived = duplicate(error)
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)
