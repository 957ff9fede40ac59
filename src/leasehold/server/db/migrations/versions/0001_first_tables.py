"""First tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """There is no way back but a backup: an older Leasehold does not open a newer database."""
    op.create_table(
        "users",
        _id(),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("display_name", sa.String(80), nullable=False),
        sa.Column("password_hash", sa.String(255), nullable=False),
        _instant("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("email", name="uq_users_email"),
    )
    op.create_table(
        "sessions",
        _id(),
        _id("user_id"),
        _instant("created_at"),
        _instant("expires_at"),
        _instant("ended_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        _refers("sessions", "user_id", "users", cascade=True),
        sa.Index("ix_sessions_user_id", "user_id"),
        sa.Index("ix_sessions_ended_at", "ended_at"),
        sa.Index("ix_sessions_expires_at", "expires_at"),
    )
    op.create_table(
        "refresh_tokens",
        sa.Column("hash", sa.String(64), nullable=False),
        _id("session_id"),
        _instant("issued_at"),
        _instant("used_at", nullable=True),
        _instant("expires_at"),
        sa.PrimaryKeyConstraint("hash", name="pk_refresh_tokens"),
        _refers("refresh_tokens", "session_id", "sessions", cascade=True),
        sa.Index("ix_refresh_tokens_session_id", "session_id"),
    )
    op.create_table(
        "applications",
        _id(),
        sa.Column("name", sa.String(200), nullable=False),
        _instant("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_applications"),
    )
    op.create_table(
        "members",
        _id("application_id"),
        _id("user_id"),
        sa.Column("role", sa.String(16), nullable=False),
        _instant("created_at"),
        sa.PrimaryKeyConstraint("application_id", "user_id", name="pk_members"),
        _refers("members", "application_id", "applications", cascade=True),
        _refers("members", "user_id", "users", cascade=True),
        sa.CheckConstraint("role IN ('viewer', 'editor', 'owner')", name=op.f("ck_members_role")),
        sa.Index("ix_members_user_id", "user_id"),
    )
    op.create_table(
        "projects",
        _id(),
        _id("application_id"),
        sa.Column("name", sa.String(200), nullable=False),
        _instant("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        _refers("projects", "application_id", "applications", cascade=True),
        sa.Index("ix_projects_application_id", "application_id"),
    )
    op.create_table(
        "documents",
        _id(),
        sa.Column("title", sa.String(200), nullable=False),
        _id("owner_id"),
        _id("application_id", nullable=True),
        _id("project_id", nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        _id("fence_user_id", nullable=True),
        sa.Column("fence_tab", sa.String(128), nullable=True),
        sa.Column("unchanged_save", sa.String(64), nullable=True),
        _instant("created_at"),
        _instant("updated_at"),
        _id("updated_by"),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        _refers("documents", "owner_id", "users"),
        _refers("documents", "application_id", "applications", cascade=True),
        _refers("documents", "project_id", "projects", cascade=True),
        _refers("documents", "updated_by", "users"),
        sa.CheckConstraint("application_id IS NULL OR project_id IS NULL", name=op.f("ck_documents_scope")),
        sa.Index("ix_documents_owner_id", "owner_id"),
        sa.Index("ix_documents_application_id", "application_id"),
        sa.Index("ix_documents_project_id", "project_id"),
    )
    op.create_table(
        "versions",
        _id("document_id"),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        _id("author_id"),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        _instant("created_at"),
        sa.PrimaryKeyConstraint("document_id", "number", name="pk_versions"),
        _refers("versions", "document_id", "documents", cascade=True),
        _refers("versions", "author_id", "users"),
    )
    op.create_table(
        "drafts",
        _id(),
        _id("document_id"),
        _id("author_id"),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.String(64), nullable=False),
        sa.Column("base_version", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(16), nullable=False),
        _instant("created_at"),
        sa.Column("status", sa.String(16), nullable=False),
        _instant("settled_at", nullable=True),
        _id("settled_by", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_drafts"),
        _refers("drafts", "document_id", "documents", cascade=True),
        _refers("drafts", "author_id", "users"),
        _refers("drafts", "settled_by", "users"),
        sa.CheckConstraint(
            "reason IN ('stale_fence', 'stale_base', 'not_holder')", name=op.f("ck_drafts_reason")
        ),
        sa.CheckConstraint("status IN ('open', 'restored', 'discarded')", name=op.f("ck_drafts_status")),
        sa.Index(
            "uq_drafts_save",
            "document_id",
            "author_id",
            "fence",
            "base_version",
            "content_hash",
            unique=True,
        ),
        sa.Index("ix_drafts_document_id_created_at", "document_id", "created_at"),
    )


def _id(name: str = "id", *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(36), nullable=nullable)


def _instant(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _refers(table: str, column: str, other: str, *, cascade: bool = False) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_{column}_{other}"
    return sa.ForeignKeyConstraint(
        [column], [f"{other}.id"], name=name, ondelete="CASCADE" if cascade else None
    )
