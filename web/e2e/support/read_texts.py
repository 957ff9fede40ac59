# ruff: noqa: INP001 - run as a file, and part of no package
"""Print what the database has of a document, as JSON: its versions and drafts, each as plain text with its author."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from typing import Any

_VERSIONS = """
    SELECT number, display_name AS author, content FROM versions JOIN users ON users.id = author_id
    WHERE document_id = ? ORDER BY number
"""
_DRAFTS = """
    SELECT base_version, reason, status, display_name AS author, content FROM drafts JOIN users ON users.id = author_id
    WHERE document_id = ? ORDER BY drafts.created_at
"""


def _text_of(node: Any) -> str:
    if isinstance(node, str):
        return node
    return node.get("text", "") + "\n".join(_text_of(child) for child in node.get("content", ()))


def _read(path: str, document_id: str) -> dict[str, list[dict[str, Any]]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        found = {
            name: [dict(row) for row in database.execute(query, (document_id,))]
            for name, query in (("versions", _VERSIONS), ("drafts", _DRAFTS))
        }
    for row in (*found["versions"], *found["drafts"]):
        row["text"] = _text_of(json.loads(row.pop("content")))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_read(*sys.argv[1:])))
