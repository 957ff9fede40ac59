from __future__ import annotations

import pytest

from leasehold import errors
from leasehold.cli.exit_codes import BY_ERROR, MEANINGS, ExitCode


def every_error() -> list[type[errors.LeaseholdError]]:
    found = [errors.LeaseholdError]
    for cls in found:
        found += [sub for sub in cls.__subclasses__() if sub not in found]
    return [cls for cls in found if cls.__module__ == errors.__name__]


@pytest.mark.parametrize("error", every_error(), ids=lambda cls: cls.__name__)
def test_every_error_of_the_library_has_an_exit_code_of_its_own_choice(
    error: type[errors.LeaseholdError],
) -> None:
    assert error in BY_ERROR


def test_the_documented_codes_do_not_change() -> None:
    assert BY_ERROR[errors.InvalidRequest] == 2
    assert BY_ERROR[errors.LockBusy] == BY_ERROR[errors.AcquireTimeout] == 3
    assert BY_ERROR[errors.LeaseLost] == 4
    assert {BY_ERROR[e] for e in (errors.StoreError, errors.StoreUnavailable, errors.StoreRefused)} == {5}


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)
