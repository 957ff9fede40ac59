"""The async and the blocking side have the same names and arguments, and they are those of the design."""

from __future__ import annotations

import inspect

import pytest

import leasehold
from leasehold import blocking, client

PAIRS = [
    (client.Client, blocking.Client),
    (client.Lease, blocking.Lease),
    (client.Leases, blocking.Leases),
]
EMPTY = inspect.Parameter.empty

GRANTING = {
    "ttl": 30,
    "wait": 5,
    "mode": "exclusive",
    "holder": None,
    "renew": False,
    "max_hold": None,
    "floor": None,
}


def verbs(kind):
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


def shape(function):
    """Names, kinds and defaults: what a caller sees of a signature."""
    return [
        (parameter.name, parameter.kind.name, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


def keywords(function):
    parameters = inspect.signature(function).parameters.values()
    return {
        parameter.name: parameter.default for parameter in parameters if parameter.kind.name == "KEYWORD_ONLY"
    }


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=["Client", "Lease", "Leases"])
def test_both_sides_have_the_same_verbs(one, other):
    assert verbs(one) == verbs(other)


@pytest.mark.parametrize(
    ("one", "other", "verb"),
    [(one, other, verb) for one, other in PAIRS for verb in sorted(verbs(one) | verbs(other))],
)
def test_a_verb_takes_the_same_arguments_on_both_sides(one, other, verb):
    assert shape(getattr(one, verb)) == shape(getattr(other, verb))


def test_connect_takes_the_same_arguments_on_both_sides():
    assert shape(leasehold.connect) == shape(blocking.connect)


def test_connect_has_the_arguments_of_the_design():
    assert shape(leasehold.connect)[0] == ("url", "POSITIONAL_OR_KEYWORD", None)
    expected = {"holder": None, "namespace": "lock", "timeout": 2}
    assert expected.items() <= keywords(leasehold.connect).items()


@pytest.mark.parametrize("side", [client.Client, blocking.Client], ids=["async", "blocking"])
class TestTheVerbsOfTheDesign:
    @pytest.mark.parametrize(
        ("verb", "changed"),
        [
            ("lock", {"renew": True}),
            ("acquire", {}),
            ("try_acquire", {"wait": EMPTY}),
            ("take", {"wait": EMPTY}),
            ("lock_all", {"renew": True}),
        ],
    )
    def test_have_its_keywords_and_defaults(self, side, verb, changed):
        expected = {
            name: default for name, default in {**GRANTING, **changed}.items() if default is not EMPTY
        }
        assert expected.items() <= keywords(getattr(side, verb)).items()
        first = "names" if verb == "lock_all" else "name"
        assert shape(getattr(side, verb))[1] == (first, "POSITIONAL_OR_KEYWORD", EMPTY)

    @pytest.mark.parametrize("verb", ["try_acquire", "take"])
    def test_that_do_not_wait_have_no_wait(self, side, verb):
        assert "wait" not in keywords(getattr(side, verb))

    def test_list_by_pattern(self, side):
        assert shape(side.list)[1:] == [("pattern", "POSITIONAL_OR_KEYWORD", "*")]

    @pytest.mark.parametrize("verb", ["lock", "acquire", "try_acquire", "take", "lock_all"])
    def test_say_what_happens_on_loss(self, side, verb):
        assert keywords(getattr(side, verb)).get("on_loss") == "cancel"


@pytest.mark.parametrize("side", [client.Lease, blocking.Lease], ids=["async", "blocking"])
def test_a_lease_has_the_verbs_of_the_design(side):
    assert {"remaining", "check", "lost", "renew", "release", "abandon"} <= verbs(side)
    assert isinstance(inspect.getattr_static(side, "is_lost"), property)
    assert shape(side.renew)[1:] == [("ttl", "POSITIONAL_OR_KEYWORD", None)]
    assert shape(side.release)[1:] == []


@pytest.mark.parametrize("side", [client.Leases, blocking.Leases], ids=["async", "blocking"])
def test_several_leases_have_the_verbs_of_one(side):
    assert {"remaining", "check", "lost", "renew", "release", "abandon"} <= verbs(side)
    assert isinstance(inspect.getattr_static(side, "is_lost"), property)
    assert shape(side.renew)[1:] == [("ttl", "POSITIONAL_OR_KEYWORD", None)]
    assert shape(side.release)[1:] == []


def is_awaited(function):
    """Whether calling it gives something to await; a plain function may hand out a coroutine."""
    returns = str(inspect.signature(function).return_annotation)
    return inspect.iscoroutinefunction(function) or returns.startswith(("Coroutine", "Awaitable"))


def test_the_verbs_that_wait_are_awaited_on_the_async_side_only():
    for name in ("acquire", "try_acquire", "take", "inspect", "close"):
        assert is_awaited(getattr(client.Client, name))
        assert not is_awaited(getattr(blocking.Client, name))
    for name in ("renew", "release", "lost"):
        for one, other in PAIRS[1:]:
            assert is_awaited(getattr(one, name))
            assert not is_awaited(getattr(other, name))
    for name in ("check", "remaining", "abandon"):
        for one, _ in PAIRS[1:]:
            assert not is_awaited(getattr(one, name))
    assert inspect.isasyncgenfunction(client.Client.list)
    assert inspect.isgeneratorfunction(blocking.Client.list)


def test_from_client_takes_what_both_clients_need():
    assert keywords(leasehold.from_client).items() <= keywords(leasehold.connect).items()


def test_the_public_names_are_there():
    for name in leasehold.__all__:
        assert getattr(leasehold, name) is not None
    assert {"connect", "from_client", "blocking", "Client", "Lease", "Leases", "LockInfo", "Hold"} <= set(
        leasehold.__all__
    )
    assert leasehold.Client is client.Client
    assert leasehold.blocking.connect is blocking.connect
