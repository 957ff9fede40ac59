"""JSON schemas of documents, versions and saves."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from starlette.responses import Response

from leasehold.documents.http.problems import Problem
from leasehold.documents.http.schemas import Asked, Fence, Instant, Told
from leasehold.documents.ports import Content, RescueReason, Role
from leasehold.server.http.fields import Name
from leasehold.server.teams.access import access_of


def _as_whole(value: Any) -> Any:
    # JSON has one number type: 1.0 is as whole as 1.
    return int(value) if isinstance(value, float) and value.is_integer() else value


# The integers that a JavaScript number holds exactly.
Number = Annotated[int, Field(ge=0, le=2**53 - 1), BeforeValidator(_as_whole)]
# As many digits as fit the database's column.
AskedFence = Annotated[
    str,
    Field(pattern=r"^[0-9]{1,18}$", description="from the grant", examples=["1790000000000001"]),
]
_IN_BOTH: dict[str, Any] = {
    "required": ["application_id", "project_id"],
    "properties": {"application_id": {"type": "string"}, "project_id": {"type": "string"}},
}
KeptContent = Annotated[Content, Field(description="text, or a JSON object")]


class NewDocument(Asked):
    """A new document: in an application, in a project, or in neither, and then personal."""

    model_config = ConfigDict(json_schema_extra={"not": _IN_BOTH})

    title: Name
    application_id: str | None = None
    project_id: str | None = None

    @model_validator(mode="after")
    def _one_scope(self) -> Self:
        if self.application_id is not None and self.project_id is not None:
            raise ValueError("a document belongs to an application or to a project, not to both")
        return self


class DocumentTitle(Asked):
    """A new title."""

    title: Name


class DocumentSummary(Told):
    """A document without its content. ``role`` is the caller's; ``version`` is 0 before the first save."""

    id: str
    title: str
    owner_id: str
    application_id: str | None
    project_id: str | None
    role: Role
    is_personal: bool
    version: int
    created_at: Instant
    updated_at: Instant
    updated_by: str
    updated_by_name: str


class Document(DocumentSummary):
    """The current document."""

    content: KeptContent


class NewContent(Asked):
    """Content that was made from ``base_version`` under the grant ``fence``."""

    content: KeptContent
    base_version: Number
    fence: AskedFence
    release: bool = False
    reason: Literal["released", "idle"] = "released"


class SavedContent(Told):
    """``lock_lost``: true if the lock has ended by now; null if the lock store did not answer."""

    version: int
    lock_lost: bool | None


class SaveRescued(Problem):
    """409: the content is kept as the draft ``draft_id``. The document is at ``version``."""

    draft_id: str
    reason: RescueReason
    version: int


class VersionSummary(Told):
    """One version, without its content."""

    version: int
    author_id: str
    author_name: str
    fence: Fence
    created_at: Instant


class Version(VersionSummary):
    """One version."""

    content: KeptContent


def show_document(row: Any, user_id: str) -> DocumentSummary:
    """The document of a row."""
    access = access_of(row, user_id)
    role: dict[str, Any] = {"role": access.role, "is_personal": access.is_personal}
    return DocumentSummary(**members_of(row, "scope") | role)


def show_version(row: Any) -> VersionSummary:
    """The version of a row."""
    return VersionSummary(**members_of(row))


def json_with_content(summary: Told, content: str) -> str:
    """The JSON of ``summary`` with the stored ``content``, which is JSON already.

    It is not decoded: for a megabyte of small objects that would stop the event loop for a second.
    """
    return f'{summary.model_dump_json()[:-1]},"content":{content}}}'


def respond_with_content(summary: Told, content: str, *, status_code: int = 200) -> Response:
    """The response with ``summary`` and the stored ``content``."""
    return Response(
        json_with_content(summary, content), status_code=status_code, media_type="application/json"
    )


def members_of(row: Any, *without: str) -> dict[str, Any]:
    """The columns of a row for a response, but its content, which is sent as it is stored."""
    members: dict[str, Any] = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    for name in ("content", *without):
        members.pop(name, None)
    if "fence" in members:
        members["fence"] = str(members["fence"])
    return members
