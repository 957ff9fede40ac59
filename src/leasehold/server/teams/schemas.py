"""JSON schemas of applications, members and projects."""

from typing import Any, Self

from leasehold.documents.http.schemas import Asked, Instant, Told
from leasehold.documents.ports import Role
from leasehold.server.auth.schemas import Email
from leasehold.server.db.models import ApplicationRow, ProjectRow
from leasehold.server.http.fields import Name


class ApplicationName(Asked):
    """A new application, or a new name for one."""

    name: Name


class Application(Told):
    """An application, with the caller's role."""

    id: str
    name: str
    role: Role
    created_at: Instant

    @classmethod
    def of(cls, row: ApplicationRow, role: Role) -> Self:
        """From its row."""
        return cls(id=row.id, name=row.name, role=role, created_at=row.created_at)


class NewMember(Asked):
    """A registered user, by email address."""

    email: Email
    role: Role


class MemberRole(Asked):
    """A new role for a member."""

    role: Role


class Member(Told):
    """``email`` is visible to owners and to the member."""

    user_id: str
    user_name: str
    email: str | None
    role: Role
    created_at: Instant

    @classmethod
    def of(cls, row: Any, *, with_email: bool) -> Self:
        """From a joined row."""
        return cls(
            user_id=row.user_id,
            user_name=row.display_name,
            email=row.email if with_email else None,
            role=row.role,
            created_at=row.created_at,
        )


class NewProject(Asked):
    """A project of an application."""

    application_id: str
    name: Name


class Project(Told):
    """A project. Its members are those of its application."""

    id: str
    application_id: str
    name: str
    created_at: Instant

    @classmethod
    def of(cls, row: ProjectRow) -> Self:
        """From its row."""
        return cls(id=row.id, application_id=row.application_id, name=row.name, created_at=row.created_at)
