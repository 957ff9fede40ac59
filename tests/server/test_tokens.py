"""Access tokens: which are accepted, and which are not."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest

from leasehold import NotSignedIn
from leasehold.documents.ports import Principal
from leasehold.server.auth.tokens import AUDIENCE, ISSUER, Tokens

KEY = b"k" * 64  # long enough for the other algorithms too


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> Tokens:
    return Tokens(KEY, seconds=900, clock=clock)


def issue(tokens: Tokens, clock: Clock, name: str = "Ana") -> str:
    return tokens.issue(user_id="u-1", user_name=name, login_id="s-1", at=clock()).text


def forge(key: bytes = KEY, algorithm: str = "HS256", **changes: Any) -> str:
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 60, "sub": "u-1", "sid": "s-1", "name": "Ana",
    }  # fmt: skip
    claims = {name: value for name, value in (claims | changes).items() if value is not None}
    return jwt.encode(claims, key, algorithm)


def test_a_token_names_its_user_and_its_end(tokens: Tokens, clock: Clock) -> None:
    made = tokens.issue(user_id="u-1", user_name="Ana Ünal", login_id="s-1", at=clock())
    assert made.expires_in == 900
    assert tokens.verify(made.text) == Principal("u-1", "Ana Ünal", int(clock()) + 900.0, "s-1")


def test_a_token_does_not_outlive_its_login(tokens: Tokens, clock: Clock) -> None:
    """A new password ends the logins that have not expired; tokens of the others must be over."""
    soon = clock() + 100
    made = tokens.issue(user_id="u-1", user_name="Ana", login_id="s-1", at=clock(), until=soon)
    assert made.expires_in <= 100
    clock.now = soon
    with pytest.raises(NotSignedIn):
        tokens.verify(made.text)


def test_another_worker_with_the_same_key_accepts_it(tokens: Tokens, clock: Clock) -> None:
    assert Tokens(KEY).verify(issue(tokens, clock)).user_id == "u-1"


def test_it_expires_on_time_also_when_it_is_cached(tokens: Tokens, clock: Clock) -> None:
    token = issue(tokens, clock)
    clock.now += 899
    assert tokens.verify(token).user_id == "u-1"
    clock.now += 1
    for _ in range(2):
        with pytest.raises(NotSignedIn, match="expired"):
            tokens.verify(token)


def test_the_tokens_of_forge_are_valid_unless_changed(tokens: Tokens) -> None:
    assert tokens.verify(forge()).user_id == "u-1"


def unsigned() -> str:
    def part(members: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")

    claims = jwt.decode(forge(), options={"verify_signature": False})
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}."


def tampered() -> str:
    head, _, signature = forge().split(".")
    claims = base64.urlsafe_b64encode(json.dumps({"sub": "somebody else"}).encode()).decode().rstrip("=")
    return f"{head}.{claims}.{signature}"


FORGED = {
    "another key": lambda: forge(key=b"x" * 32),
    "no signature (alg none)": unsigned,
    "PyJWT's alg none": lambda: jwt.encode({"sub": "u-1"}, None, "none"),
    "another algorithm with our key": lambda: forge(algorithm="HS512"),
    "another audience": lambda: forge(aud="somebody else"),
    "no audience": lambda: forge(aud=None),
    "another issuer": lambda: forge(iss="somebody else"),
    "no issuer": lambda: forge(iss=None),
    "expired": lambda: forge(exp=int(time.time()) - 60),
    "expired a second ago": lambda: forge(exp=int(time.time()) - 1),
    "no end": lambda: forge(exp=None),
    "issued in the future": lambda: forge(iat=int(time.time()) + 3600),
    "no beginning": lambda: forge(iat=None),
    "no user": lambda: forge(sub=None),
    "no session": lambda: forge(sid=None),
    "no name": lambda: forge(name=None),
    "not yet": lambda: forge(nbf=int(time.time()) + 3600),
    "changed claims": tampered,
    "cut off": lambda: forge()[:-3],
    "nothing": lambda: "",
    "not a token": lambda: "a.b.c",
    "too long": lambda: forge(name="x" * 5000),
    "not ASCII": lambda: "🔑.🔑.🔑",
    "a lone surrogate": lambda: "\udc80" + forge(),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_token_is_refused_every_time(tokens: Tokens, what: str) -> None:
    token = FORGED[what]()
    for _ in range(2):
        with pytest.raises(NotSignedIn) as refusal:
            tokens.verify(token)
        assert refusal.value.__cause__ is None
        assert not token or token not in str(refusal.value)


def test_a_clock_that_is_a_little_behind_accepts_a_new_token(tokens: Tokens, clock: Clock) -> None:
    token = issue(tokens, clock)
    clock.now -= 5
    assert tokens.verify(token).user_id == "u-1"


def test_a_repeated_token_is_not_decoded_again(
    tokens: Tokens, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = issue(tokens, clock)
    first = tokens.verify(token)
    monkeypatch.setattr(jwt, "decode", None)
    assert tokens.verify(token) is first


def test_the_cache_is_bounded_and_holds_no_token(tokens: Tokens, clock: Clock) -> None:
    for number in range(5000):
        tokens.verify(issue(tokens, clock, name=f"user {number}"))
    assert len(tokens._verified) <= 4096
    assert all(len(digest) == 32 for digest in tokens._verified)


def test_a_principal_is_shown_by_id_and_name() -> None:
    principal = Principal("u-1", "Ana", 1.0, "s-1")
    assert (principal.id, principal.name) == ("u-1", "Ana")


def test_the_login_of_an_expired_token_is_known_but_only_of_our_tokens(tokens: Tokens, clock: Clock) -> None:
    token = tokens.issue(user_id="u-1", user_name="Ana", login_id="s-1", at=clock() - 86_400).text
    with pytest.raises(NotSignedIn):
        tokens.verify(token)
    assert tokens.login_of(token) == "s-1"
    with pytest.raises(NotSignedIn):
        tokens.verify(token)  # it is not cached as valid
    forged = Tokens(b"x" * 64).issue(user_id="u-1", user_name="Ana", login_id="s-1", at=clock()).text
    for bad in (forged, "made.up.token", "", "x" * 10_000):
        with pytest.raises(NotSignedIn):
            tokens.login_of(bad)
