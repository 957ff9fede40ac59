"""The tables. Ids are random UUIDs as text; every instant is Unix seconds, float."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import uuid4

from sqlalchemy import BigInteger, CheckConstraint, Double, ForeignKey, Index, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


def new_id() -> str:
    """An id for a new row."""
    return str(uuid4())


class Row(DeclarativeBase):
    """A row of any table."""

    # Constraints are named so that a later migration can find them on every database.
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {float: Double(), str: Text()}


class UserRow(Row):
    """An account. ``email`` is lower-case.

    A deleted account keeps its row, without address, name and password, because versions name their author.
    """

    __tablename__ = "users"

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    email: Mapped[str] = mapped_column(String(254), unique=True)
    display_name: Mapped[str] = mapped_column(String(80))
    password_hash: Mapped[str] = mapped_column(String(255))
    created_at: Mapped[float]
    deleted_at: Mapped[float | None]


class LoginRow(Row):
    """One login. Its refresh tokens all descend from one check of the password.

    ``expires_at`` advances with every refresh. ``ended_at`` is set once, by a logout or by a reused refresh token.
    """

    __tablename__ = "sessions"
    __table_args__ = (
        Index(None, "user_id"),
        Index(None, "ended_at"),
        Index(None, "expires_at"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    user_id: Mapped[str] = mapped_column(String(36), ForeignKey("users.id", ondelete="CASCADE"))
    created_at: Mapped[float]
    expires_at: Mapped[float]
    ended_at: Mapped[float | None]


class RefreshTokenRow(Row):
    """A refresh token by its SHA-256. ``used_at`` is set once: a token is valid for one refresh."""

    __tablename__ = "refresh_tokens"
    __table_args__ = (Index(None, "session_id"),)

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    session_id: Mapped[str] = mapped_column(String(36), ForeignKey("sessions.id", ondelete="CASCADE"))
    issued_at: Mapped[float]
    used_at: Mapped[float | None]
    expires_at: Mapped[float]


class ApplicationRow(Row):
    """What a team works on: projects, documents and members."""

    __tablename__ = "applications"

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[float]


class MemberRow(Row):
    """The role of a user in an application."""

    __tablename__ = "members"
    __table_args__ = (
        CheckConstraint("role IN ('viewer', 'editor', 'owner')", name="role"),
        Index(None, "user_id"),
    )

    application_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("applications.id", ondelete="CASCADE"), primary_key=True
    )
    user_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("users.id", ondelete="CASCADE"), primary_key=True
    )
    role: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[float]


class ProjectRow(Row):
    """A part of an application, with the same members."""

    __tablename__ = "projects"
    __table_args__ = (Index(None, "application_id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    application_id: Mapped[str] = mapped_column(String(36), ForeignKey("applications.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[float]


class DocumentRow(Row):
    """A document and its current version. It belongs to an application, or to a project, or else to its owner alone.

    ``content`` is JSON. ``fence`` is the newest grant of its lock, to ``fence_user_id`` in ``fence_tab`` (a digest;
    empty for the nameless tab). ``unchanged_save`` is a digest of the newest save that changed nothing, and so left no
    version by which its retry could be recognised. ``stored_bytes`` is the size of its versions and drafts.
    """

    __tablename__ = "documents"
    __table_args__ = (
        CheckConstraint("application_id IS NULL OR project_id IS NULL", name="scope"),
        # With the bytes, because a sum must not read the contents of all rows.
        Index(None, "owner_id", "stored_bytes"),
        Index(None, "application_id"),
        Index(None, "project_id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    title: Mapped[str] = mapped_column(String(200))
    owner_id: Mapped[str] = mapped_column(String(36), ForeignKey("users.id"))
    application_id: Mapped[str | None] = mapped_column(
        String(36), ForeignKey("applications.id", ondelete="CASCADE")
    )
    project_id: Mapped[str | None] = mapped_column(String(36), ForeignKey("projects.id", ondelete="CASCADE"))
    version: Mapped[int] = mapped_column(BigInteger, default=0)
    content: Mapped[str] = mapped_column(Text)
    fence: Mapped[int] = mapped_column(BigInteger, default=0)
    # Not foreign keys: a grant is recorded as the lock store made it.
    fence_user_id: Mapped[str | None] = mapped_column(String(36))
    fence_tab: Mapped[str | None] = mapped_column(String(128))
    unchanged_save: Mapped[str | None] = mapped_column(String(64))
    stored_bytes: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    created_at: Mapped[float]
    updated_at: Mapped[float]
    updated_by: Mapped[str] = mapped_column(String(36), ForeignKey("users.id"))


class VersionRow(Row):
    """The content of a document at one version, its author, and the fence of the grant."""

    __tablename__ = "versions"

    document_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    content: Mapped[str] = mapped_column(Text)
    author_id: Mapped[str] = mapped_column(String(36), ForeignKey("users.id"))
    fence: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[float]


class DraftRow(Row):
    """A save that could not become a version.

    ``content_hash`` is the SHA-256 of ``content``. Retries of a save share one row.
    """

    __tablename__ = "drafts"
    __table_args__ = (
        CheckConstraint("reason IN ('stale_fence', 'stale_base', 'not_holder')", name="reason"),
        CheckConstraint("status IN ('open', 'restored', 'discarded')", name="status"),
        Index(
            "uq_drafts_save",
            "document_id",
            "author_id",
            "fence",
            "base_version",
            "content_hash",
            unique=True,
        ),
        Index(None, "document_id", "created_at"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    document_id: Mapped[str] = mapped_column(String(36), ForeignKey("documents.id", ondelete="CASCADE"))
    author_id: Mapped[str] = mapped_column(String(36), ForeignKey("users.id"))
    content: Mapped[str] = mapped_column(Text)
    content_hash: Mapped[str] = mapped_column(String(64))
    base_version: Mapped[int] = mapped_column(BigInteger)
    fence: Mapped[int] = mapped_column(BigInteger)
    reason: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[float]
    status: Mapped[str] = mapped_column(String(16), default="open")
    settled_at: Mapped[float | None]
    settled_by: Mapped[str | None] = mapped_column(String(36), ForeignKey("users.id"))
