"""Runs every example of docs/agents.md as it is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.pages import Page

import leasehold
from leasehold.files import FileLocks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.pages import Example
    from tests.support.servers import Server

PAGE = Page("docs/agents.md")


def test_every_python_block_of_the_page_on_agents_is_run() -> None:
    assert PAGE.left_out() == []


@pytest.fixture
async def names(valkey: Server, tmp_path: Path) -> AsyncIterator[dict[str, Any]]:
    """The names that the examples do not define: a root with two files, a client, and two sessions."""
    root = tmp_path.resolve()
    (root / "src").mkdir()
    (root / "src" / "app.py").write_text("class Old: ...\n")
    (root / "notes.md").write_text("notes\n")
    async with leasehold.connect(valkey.url) as locks:
        files = FileLocks(locks, root=root)
        yield {
            "leasehold": leasehold,
            "Path": Path,
            "FileLocks": FileLocks,
            "url": valkey.url,
            "root": root,
            "locks": locks,
            "files": files,
            "session": await files.session("agent-7", purpose="rename a class"),
            "other_session": await files.session("agent-6"),
        }


@PAGE.runs("asyncio.run(main(Path.cwd()))")
async def test_the_first_example_locks_reads_and_writes(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    names: dict[str, Any] = {"__name__": "example"}
    await example.run(names)
    for _ in range(2):  # a reader runs it again
        await names["main"](tmp_path)
        said = capsys.readouterr().out.splitlines()
        assert re.fullmatch(r"written under fence \d{16}", said[0])
        assert said[1:] == ["class New: ...", "both are locked"]


@PAGE.runs("same[0].sha256 ==")
async def test_spellings_of_one_file_have_one_lock(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)


@PAGE.runs('project="shop"')
async def test_a_project_is_the_same_at_different_places(
    example: Example, names: dict[str, Any], tmp_path: Path
) -> None:
    for place in ("/home/ada/shop", "/mnt/build/shop"):
        assert place in example.code
        (tmp_path / place[1:]).mkdir(parents=True)
        example.code = example.code.replace(place, f"{tmp_path}{place}")
    await example.run(names)


@PAGE.runs("except leasehold.NotAllowed")
async def test_only_the_secret_opens_a_session(example: Example, names: dict[str, Any], capsys: Any) -> None:
    await example.run(names)
    assert names["same_session"].id == "agent-8"
    assert capsys.readouterr().out == (
        "there is a session 'agent-8' already, and only its own secret opens it: pass that as secret=…, or choose another id\n"
    )


@PAGE.runs("lease.upgrade()")
async def test_a_lease_without_a_block(example: Example, names: dict[str, Any], capsys: Any) -> None:
    await example.run(names)
    assert capsys.readouterr().out == "300.0 True\n"
    assert not (await names["files"].inspect("notes.md")).is_held


@PAGE.runs("except leasehold.FileBusy")
async def test_a_busy_error_names_the_holder_and_its_purpose(
    example: Example, names: dict[str, Any], capsys: Any
) -> None:
    async with names["session"].write("notes.md"):
        await example.run(names)
    said = capsys.readouterr().out
    assert said.startswith("lock_contended agent-7 rename a class\n")
    assert "is held for writing by session 'agent-7'" in said


@PAGE.runs("except leasehold.FileChanged")
async def test_a_change_without_the_lock_is_detected(
    example: Example, names: dict[str, Any], capsys: Any
) -> None:
    await example.run(names)
    assert (
        "is not what this session last saw, so it was not written; read it again" in capsys.readouterr().out
    )
    assert (names["root"] / "notes.md").read_bytes() == b"by a program that takes no locks"


@PAGE.runs("session.restore()")
async def test_the_files_of_a_session_are_restored(
    example: Example, names: dict[str, Any], capsys: Any
) -> None:
    before = await names["files"].session("agent-9")
    await before.acquire_write("notes.md", ttl=200)
    await example.run(names | {"secret": before.secret})
    assert capsys.readouterr().out == "restored notes.md\n"


@PAGE.runs("FileSettings.from_environment")
async def test_the_same_for_threads(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    assert (names["root"] / "notes.md").read_text() == "by a plain script\n"


def test_every_command_that_is_shown_exists() -> None:
    shown = set(
        re.findall(r"leasehold files (\w+)", next(b.code for b in PAGE.blocks if b.language == "console"))
    )
    assert shown == {"lock", "unlock", "ls", "history", "restore"}
