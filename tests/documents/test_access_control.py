"""The permission check, and the log of its refusals."""

from __future__ import annotations

import logging

import pytest

from leasehold import NotAllowed, NotFound
from leasehold.documents import Access
from leasehold.documents.access_control import PermissionCheck

ROLES = (None, "viewer", "editor", "owner")
NEEDS = ("viewer", "editor", "owner")


class Policy:
    """Returns a given access, and counts the calls."""

    def __init__(self, answer: Access | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    async def access(self, user_id, document_id):
        self.asked.append((user_id, document_id))
        return self.answer


@pytest.mark.parametrize("needs", NEEDS)
@pytest.mark.parametrize("role", ROLES, ids=str)
async def test_a_role_may_do_what_the_ones_below_may_and_no_more(role, needs) -> None:
    permissions = PermissionCheck(Policy(Access(role)))
    if ROLES.index(role) >= ROLES.index(needs):
        assert (await permissions.check("ana", "doc", needs)).role == role
    else:
        with pytest.raises(NotAllowed):
            await permissions.check("ana", "doc", needs)


@pytest.mark.parametrize("needs", NEEDS)
async def test_a_document_that_does_not_exist_is_not_found(needs) -> None:
    with pytest.raises(NotFound):
        await PermissionCheck(Policy(None)).check("ana", "doc", needs)


@pytest.mark.parametrize("role", ROLES, ids=str)
@pytest.mark.parametrize("is_personal", [False, True], ids=["shared", "personal"])
async def test_only_owners_take_and_never_a_personal_document(role, is_personal) -> None:
    permissions = PermissionCheck(Policy(Access(role, is_personal=is_personal)))
    if role == "owner" and not is_personal:
        assert (await permissions.check("olga", "doc", "owner", to_take=True)).role == "owner"
    else:
        with pytest.raises(NotAllowed):
            await permissions.check("olga", "doc", "owner", to_take=True)


async def test_the_policy_is_called_for_every_request() -> None:
    policy = Policy(Access("editor"))
    permissions = PermissionCheck(policy)
    await permissions.check("ana", "doc", "editor")
    policy.answer = Access(None)
    with pytest.raises(NotAllowed):
        await permissions.check("ana", "doc", "editor")
    assert policy.asked == [("ana", "doc")] * 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "no such document"),
        (Access(None), "role None"),
        (Access("viewer"), "role viewer"),
        (Access("owner", is_personal=True), "personal document"),
    ],
    ids=["missing", "stranger", "viewer", "personal"],
)
async def test_every_refusal_is_logged_as_fields(answer, why, caplog) -> None:
    with caplog.at_level(logging.INFO, "leasehold.audit"), pytest.raises((NotAllowed, NotFound)):
        await PermissionCheck(Policy(answer)).check("zoe", "doc", "owner", to_take=True)
    (record,) = [record for record in caplog.records if record.name == "leasehold.audit"]
    fields = (record.action, record.user_id, record.document_id, record.needs, record.why)
    assert fields == ("access_refused", "zoe", "doc", "owner", why)
    assert "zoe" in record.getMessage()


async def test_a_permitted_call_is_not_logged(caplog) -> None:
    with caplog.at_level(logging.INFO, "leasehold.audit"):
        await PermissionCheck(Policy(Access("viewer"))).check("vera", "doc", "viewer")
    assert not caplog.records
