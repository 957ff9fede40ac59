"""JSON schemas of accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr

from leasehold.documents.http.schemas import Asked, Instant, Told
from leasehold.server.http.fields import BLANKS, JOINERS

if TYPE_CHECKING:
    from leasehold.server.db.models import UserRow

# What a browser accepts in <input type="email">. Delivery is not checked.
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_EMAIL = rf"^[a-zA-Z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*$"

# Without controls, invisible characters and marks that change the direction of the text after them: a name must not look
# like another one, or like more than a name.
_INVISIBLE = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u1680\u180e\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f"
    rf"\u3000\ue000-\uf8ff\ufeff\ufff0-\uffff{BLANKS}"
)
_NAME = rf"^ *[^ {JOINERS}{_INVISIBLE}][^{_INVISIBLE}]*$"


def _check_surrogates(password: SecretStr) -> SecretStr:
    if any("\ud800" <= character <= "\udfff" for character in password.get_secret_value()):
        raise ValueError("contains an unpaired surrogate")
    return password


Email = Annotated[
    str, Field(pattern=_EMAIL, max_length=254, examples=["ana@example.com"]), AfterValidator(str.lower)
]
DisplayName = Annotated[
    str, Field(pattern=_NAME, min_length=1, max_length=80, examples=["Ana"]), AfterValidator(str.strip)
]
Password = Annotated[
    SecretStr,
    Field(min_length=8, max_length=256, examples=["correct horse battery"]),
    AfterValidator(_check_surrogates),
]

# Without an example, so that no generated request has the right one.
GivenPassword = Annotated[SecretStr, Field(max_length=256), AfterValidator(_check_surrogates)]


class Registration(Asked):
    """A new account."""

    email: Email
    password: Password
    display_name: DisplayName


class Credentials(Asked):
    """The address and password of an account."""

    email: Email
    password: Password


class PasswordChange(Asked):
    """A new password, and the one until now."""

    current_password: GivenPassword
    new_password: Password


class AccountDeletion(Asked):
    """The password, as proof that the owner of the account asks."""

    password: GivenPassword


class Login(Told):
    """One login of the account. ``last_used_at``: when it was last refreshed."""

    id: str
    created_at: Instant
    last_used_at: Instant
    expires_at: Instant
    is_current: bool


class User(Told):
    """An account as its owner sees it."""

    id: str
    email: str
    display_name: str
    created_at: Instant

    @classmethod
    def of(cls, user: UserRow) -> Self:
        """From its row, without the hash of the password."""
        return cls(id=user.id, email=user.email, display_name=user.display_name, created_at=user.created_at)


class SignedInUser(User):
    """A signed-in account. ``access_token`` is valid for ``expires_in`` seconds.

    ``csrf_token`` goes into the header X-CSRF-Token of refresh and logout.
    """

    access_token: str
    token_type: Literal["bearer"] = "bearer"  # noqa: S105 - not a secret
    expires_in: int
    csrf_token: str
