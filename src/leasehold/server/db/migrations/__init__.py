"""Alembic's environment, and the command that begins a migration."""
