"""`leasehold files …`: locks of files from the command line."""

from __future__ import annotations

import json
import shlex
import stat
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import finish
from tests.support.eventually import eventually

from leasehold.files.blocking import FileLocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Cli
    from tests.support.servers import Server

    from leasehold.blocking import Client

SECRET = "c4nary" * 8


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where the commands run; `notes.md` is there."""
    (tmp_path / "notes.md").write_text("notes")
    return tmp_path.resolve()


@pytest.fixture
def held(locks: Client, home: Path) -> Callable[[str], bool]:
    """Whether a file is locked, asked of the library."""
    files = FileLocks(locks, root="/")
    return lambda name: files.inspect(home / name).is_held


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_file_is_locked_listed_remembered_and_unlocked(cli: Cli, home: Path, held: Any) -> None:
    locked = cli("files", "lock", "./notes.md", "--ttl", "200", "--purpose", "tidy up", "--session", "ada")
    assert locked.code == 0, locked.err
    first, second = locked.out.splitlines()
    assert first.startswith(f"{home}/notes.md is locked for writing by session ada for ")
    assert second == "unlock it with: leasehold files unlock ./notes.md --session ada"
    assert held("notes.md")
    (row,) = cli("files", "ls").out.splitlines()
    path, mode, holder, purpose, _, _, waiters, fence = row.split("\t")
    assert (path, mode, purpose, waiters) == (f"{home}/notes.md", "write", "tidy up", "0")
    assert holder.startswith("session 'ada' (")
    assert fence in first
    (past,) = cli("files", "history", "--session", "ada").out.splitlines()
    assert past.split("\t")[:3] == [f"{home}/notes.md", "write", "held"]
    unlock = shlex.split(second.partition(": leasehold ")[2])
    assert cli(*unlock).out == "./notes.md is unlocked\n"
    assert not held("notes.md")
    again = cli(*unlock)
    assert (again.code, again.out) == (0, "./notes.md was not locked by session ada\n")
    empty = cli("files", "ls")
    assert (empty.code, empty.out, empty.line) == (0, "", "leasehold: no file is locked")


def test_the_same_as_json(cli: Cli, home: Path) -> None:
    locked = cli.inside("files", "lock", "notes.md", "--read", "--session", "ada", "--json").json
    assert (locked["path"], locked["mode"], locked["session"]) == (f"{home}/notes.md", "read", "ada")
    assert (locked["ttl"], locked["trimmed"]) == (30.0, False)
    (listed,) = lines(cli.inside("files", "ls", f"{home}/*.md", "--json").out)
    assert (listed["path"], listed["mode"], listed["waiters"]) == (f"{home}/notes.md", "read", 0)
    assert (listed["holds"][0]["session"], listed["holds"][0]["fence"]) == ("ada", locked["fence"])
    assert cli.inside("files", "ls", "*.txt", "--json").out == ""
    (past,) = lines(cli.inside("files", "history", "--session", "ada", "--json").out)
    assert (past["path"], past["state"], past["fence"]) == (f"{home}/notes.md", "held", locked["fence"])
    released = cli.inside("files", "unlock", "notes.md", "other.md", "--session", "ada", "--json").json
    assert released == {"session": "ada", "released": ["notes.md"]}


def test_a_file_that_another_session_has_is_refused_with_who_and_what_for(cli: Cli, home: Path) -> None:
    cli.inside("files", "lock", "notes.md", "--ttl", "200", "--session", "ada", "--purpose", "tidy up")
    refused = cli.inside("files", "lock", "notes.md", "--session", "bob", "--wait", "0")
    assert (refused.code, refused.out) == (3, "")
    assert f"'{home}/notes.md' is held for writing by session 'ada'" in refused.line
    assert "for 'tidy up'" in refused.line
    error = cli.inside("files", "lock", "notes.md", "--session", "bob", "--wait", "0.2", "--json").error
    assert (error["code"], error["reason"], error["exit_code"]) == ("file_timeout", "lock_timeout", 3)
    assert error["holder"]["session"] == "ada"
    # Bob can neither unlock it nor see what ada has done.
    assert (
        "was not locked by session bob" in cli.inside("files", "unlock", "notes.md", "--session", "bob").out
    )
    assert cli.inside("files", "history", "--session", "bob").out == ""


def test_a_refusal_advises_shell_commands(cli: Cli) -> None:
    cli.inside("files", "lock", "notes.md", "--ttl", "200", "--session", "ada")
    for command in ([], ["--", "true"]):
        refused = cli.inside("files", "lock", "notes.md", "--session", "bob", "--wait", "0", *command)
        assert refused.code == 3
        assert refused.line.endswith("; wait for it (--wait SECONDS), or work on another file first")
        own = cli.inside("files", "lock", "notes.md", "--session", "ada", "--wait", "0", *command)
        assert own.code == 3
        assert "that is this very session: leasehold files unlock releases it" in own.line
        assert "leasehold files restore takes it over" in own.line
        assert "restore()" not in own.line


@pytest.mark.parametrize("in_json", [False, True], ids=["text", "json"])
def test_the_password_of_the_store_is_not_shown(
    cli_for: Callable[[None], Cli], own_server: Callable[..., Server], in_json: bool
) -> None:
    store = own_server("valkey9", requirepass="hunter2")
    url = store.url_for(password="hunter2")
    options = ["--session", "ada", "--namespace", "mine", "--timeout", "20"]
    cli = cli_for(None)
    locked = cli.inside("files", "lock", "notes.md", *options, "--url", url, *["--json"] * in_json)
    assert locked.code == 0, locked.err
    assert "hunter2" not in locked.out + locked.err
    assert locked.line == (
        "leasehold: the URL is not shown, because it may contain a password; unlock needs the same --url"
    )
    unlock = locked.json["unlock"] if in_json else locked.out.splitlines()[1].partition(": ")[2]
    assert unlock == "leasehold files unlock notes.md --session ada --namespace mine --timeout 20"
    assert cli.inside(*shlex.split(unlock)[1:], "--url", url).out == "notes.md is unlocked\n"


def test_the_unlock_command_has_the_options_of_lock_and_no_others(
    cli_for: Callable[[None], Cli], valkey: Server
) -> None:
    cli = cli_for(None)
    env = {"LEASEHOLD_NAMESPACE": "theirs"}
    options = ["--session", "", "--project", "", "--namespace", "lock", "--url", valkey.url]
    locked = cli.inside("files", "lock", "notes.md", *options, "--json", env=env)
    assert locked.code == 0, locked.err
    assert locked.json["unlock"] == (f"leasehold files unlock notes.md --url {valkey.url} --namespace lock")
    unlocked = cli.inside(*shlex.split(locked.json["unlock"])[1:], env=env)
    assert unlocked.out == "notes.md is unlocked\n"


def test_readers_share_a_file_and_keep_writers_out(cli: Cli) -> None:
    for session in ("ada", "bob"):
        assert (
            cli.inside("files", "lock", "notes.md", "--read", "--ttl", "200", "--session", session).code == 0
        )
    assert cli.inside("files", "lock", "notes.md", "--session", "eve", "--wait", "0").code == 3
    assert " and 1 more\t" in cli.inside("files", "ls").out


def test_a_command_runs_while_the_file_is_locked(cli: Cli, home: Path, held: Any) -> None:
    script = 'echo "$LEASEHOLD_NAME $LEASEHOLD_FENCE"; read line; exit 7'
    running = cli.start("files", "lock", "notes.md", "--", "sh", "-c", script, stdin=-1)
    eventually(lambda: held("notes.md"))
    done = finish(running, typing="go\n")
    assert done.code == 7, done.err
    name, fence = done.out.split()
    assert (name, fence.isdigit()) == (f"{home}/notes.md", True)
    assert not held("notes.md")


def test_a_command_does_not_get_the_secret_of_the_session(cli: Cli, home: Path) -> None:
    env = {"LEASEHOLD_SESSION": "ada", "LEASEHOLD_SESSION_SECRET": SECRET}
    done = cli("files", "lock", "notes.md", "--", "env", env=env)
    assert done.code == 0, done.err
    assert f"LEASEHOLD_NAME={home}/notes.md" in done.out
    assert "LEASEHOLD_SESSION=ada" in done.out
    assert SECRET not in done.out


def test_a_command_is_stopped_when_the_lock_is_taken_from_it(cli: Cli, held: Any) -> None:
    running = cli.start("files", "lock", "notes.md", "--ttl", "6", "--", "sleep", "600")
    eventually(lambda: held("notes.md"))
    assert cli.inside("files", "unlock", "--all").code == 0
    stopped = finish(running)
    assert stopped.code == 4
    assert "the command was stopped" in stopped.line


def test_a_command_that_does_not_exist_locks_nothing(cli: Cli, held: Any) -> None:
    assert cli.inside("files", "lock", "notes.md", "--", "no-such-command").code == 127
    assert not held("notes.md")
    misplaced = cli.inside("files", "lock", "notes.md", "ls", "-l")
    assert misplaced.code == 2
    assert "options of the command come after --" in misplaced.line


def test_a_session_that_was_killed_is_restored(cli: Cli, locks: Client, home: Path, held: Any) -> None:
    for name in ("gone.md", "free.md"):
        assert cli.inside("files", "lock", name, "--ttl", "1", "--session", "ada").code == 0
    running = cli.start("files", "lock", "notes.md", "--ttl", "200", "--session", "ada", "--", "sleep", "600")

    def recorded_fences() -> dict[str, str | None]:
        entries = lines(cli.inside("files", "history", "--session", "ada", "--json").out)
        return {entry["path"].rpartition("/")[2]: entry["fence"] for entry in entries}

    # Not only until it is held: the fence reaches the history after the grant, and the kill could come between the two.
    fences: dict[str, Any] = eventually(lambda: (found := recorded_fences()).get("notes.md") and found)
    running.kill()
    eventually(lambda: not held("gone.md") and not held("free.md"))
    FileLocks(locks, root="/").session("bob").acquire_write(home / "gone.md", ttl=200)
    told = cli.inside("files", "restore", "--session", "ada", "--wait", "0.1", "--json")
    assert told.code == 4
    reports = {report["path"].rpartition("/")[2]: report for report in lines(told.out)}
    assert {name: report["outcome"] for name, report in reports.items()} == {
        "notes.md": "restored",
        "gone.md": "lost",
        "free.md": "reacquired",
    }
    assert reports["notes.md"]["fence"] == fences["notes.md"]
    assert int(reports["free.md"]["fence"]) > int(fences["free.md"])
    assert reports["gone.md"]["lost_to"]["session"] == "bob"
    assert held("notes.md")
    again = cli.inside("files", "restore", "--session", "ada")
    assert again.code == 0
    assert (
        f"{home}/notes.md: restored for write, with the same fence {reports['notes.md']['fence']}\n"
        in again.out
    )
    assert "gone.md" not in again.out


def test_unlocking_everything_clears_locks_and_history(cli: Cli, home: Path, held: Any) -> None:
    for name in ("notes.md", "new/dir/file.md"):
        assert cli.inside("files", "lock", name, "--ttl", "200").code == 0
    answer = cli.inside("files", "unlock", "--all", "--json").json
    assert sorted(answer["released"]) == [f"{home}/new/dir/file.md", f"{home}/notes.md"]
    assert not held("notes.md")
    past = cli.inside("files", "history")
    assert (past.out, past.code) == ("", 0)
    assert "holds no file and has requested none" in past.line
    assert cli.inside("files", "unlock", "--all").out.endswith(" held no file\n")


@pytest.mark.parametrize("arguments", [[], ["notes.md", "--all"]], ids=["neither", "both"])
def test_unlock_takes_files_or_all(cli: Cli, arguments: list[str]) -> None:
    answer = cli.inside("files", "unlock", *arguments)
    assert (answer.code, answer.line) == (2, "leasehold: name the files, or give --all")


def test_a_longer_ttl_than_allowed_is_trimmed_with_a_warning(cli: Cli) -> None:
    answer = cli.inside("files", "lock", "notes.md", "--ttl", "3600")
    assert answer.code == 0
    assert answer.line == "leasehold: the ttl was trimmed to 300 s, the maximum"
    assert " for 5 min, fence " in answer.out


def test_with_a_command_a_trimmed_ttl_is_a_warning_too(cli: Cli) -> None:
    answer = cli("files", "lock", "notes.md", "--ttl", "1000", "--", "true")
    assert (answer.code, answer.line) == (
        0,
        "leasehold: the ttl was trimmed to 300 s, the maximum",
    )
    assert cli("files", "lock", "notes.md", "--ttl", "300", "--", "true").err == ""


def test_an_invalid_id_leaves_no_files_behind(cli: Cli, home: Path) -> None:
    kept = home / "data" / "leasehold" / "sessions"
    assert cli.inside("files", "lock", "notes.md", "--session", "ada").code == 0
    for bad in ("a b", "../ada", "x" * 129):
        for command in (["lock", "notes.md"], ["lock", "notes.md", "--", "true"], ["unlock", "notes.md"]):
            answer = cli.inside("files", command[0], "--session", bad, *command[1:])
            assert answer.code == 2
            assert "a session id is 1 to 128 of the letters" in answer.line
    assert [secret.name for secret in kept.iterdir()] == ["ada.secret"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["."], "'{home}/.' is a directory; only files can be locked"),
        (["../x", "--root", "."], "'{home}/../x' is outside the root '{home}'"),
        ([""], "a path must not be empty"),
        (["notes.md", "--session", "a b"], "a session id is 1 to 128 of the letters"),
        (["notes.md", "--session", "x" * 129], "a session id is 1 to 128 of the letters"),
        (["notes.md", "--ttl", "0"], "ttl must be a number of seconds from 0.01, not 0.0"),
        (["notes.md", "--wait", "-1"], "wait must be a number of seconds"),
        (["notes.md", "--root", "nowhere"], "the root must be an existing directory"),
    ],
    ids=["directory", "outside", "empty", "bad id", "long id", "no ttl", "negative wait", "no root"],
)
def test_bad_input_is_refused_and_locks_nothing(
    cli: Cli, home: Path, arguments: list[str], said: str
) -> None:
    answer = cli.inside("files", "lock", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said.format(home=home) in answer.line
    assert cli.inside("files", "ls").out == ""


def test_a_project_has_one_lock_for_copies_at_different_places(cli: Cli, home: Path) -> None:
    for name in ("here", "there"):
        (home / name).mkdir()
    locked = cli(
        "files", "lock", "here/a.md", "--root", "here", "--project", "demo", "--session", "ada", "--json"
    )
    assert locked.json["path"] == "a.md"
    refused = cli(
        "files",
        "lock",
        "there/a.md",
        "--root",
        "there",
        "--project",
        "demo",
        "--session",
        "bob",
        "--wait",
        "0",
    )
    assert refused.code == 3
    assert cli.inside("files", "lock", "there/a.md", "--session", "bob", "--wait", "0").code == 0


def test_a_secret_is_created_once_and_readable_only_by_its_user(cli: Cli, home: Path) -> None:
    first = cli.inside("files", "lock", "notes.md", "--session", "ada")
    (kept,) = (home / "data" / "leasehold" / "sessions").iterdir()
    secret = kept.read_text().strip()
    assert kept.name == "ada.secret"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert len(secret) == 64
    answers = [
        first,
        cli.inside("files", "history", "--session", "ada", "--json"),
        cli.inside("files", "ls", "--json"),
    ]
    for answer in answers:
        assert answer.code == 0
        assert secret not in answer.out + answer.err
    kept.chmod(0o644)
    exposed = cli.inside("files", "unlock", "notes.md", "--session", "ada", "--json")
    assert (exposed.code, exposed.error["code"]) == (2, "secret_exposed")
    assert secret not in exposed.err


def test_the_secret_may_be_in_the_environment_or_in_a_file_and_must_be_the_right_one(
    cli: Cli, home: Path
) -> None:
    env = {"LEASEHOLD_SESSION": "ada", "LEASEHOLD_SESSION_SECRET": SECRET}
    assert cli.inside("files", "lock", "notes.md", env=env).code == 0
    assert not (home / "data" / "leasehold" / "sessions").exists()
    (home / "ada.secret").write_text(SECRET + "\n")
    (home / "ada.secret").chmod(0o600)
    by_file = {"LEASEHOLD_SESSION": "ada", "LEASEHOLD_SESSION_SECRET_FILE": str(home / "ada.secret")}
    assert cli.inside("files", "history", env=by_file).out.startswith(f"{home}/notes.md\t")
    wrong = cli.inside("files", "unlock", "notes.md", env=env | {"LEASEHOLD_SESSION_SECRET": SECRET[::-1]})
    assert (wrong.code, wrong.line) == (
        2,
        "leasehold: there is a session 'ada' already, and only its own secret opens it: pass that as secret=…, or choose another id",
    )
    missing = cli.inside("files", "unlock", "notes.md", "--session", "ada", "--json")
    assert (missing.code, missing.error["code"]) == (2, "no_secret")
    assert SECRET not in wrong.err + missing.err
    assert cli.inside(
        "files", "unlock", "notes.md", "--secret-file", "ada.secret", "--session", "ada"
    ).out == ("notes.md is unlocked\n")


def test_without_a_store_the_exit_code_is_5(cli_for: Callable[[str], Cli]) -> None:
    for command in (["lock", "x.md"], ["ls"]):
        answer = cli_for("redis://127.0.0.1:1").inside("files", *command, "--timeout", "0.3")
        assert (answer.code, answer.out) == (5, "")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ([], ["leasehold files lock src/app.py -- make format", "acting for a session needs its secret"]),
        (["lock"], ["leasehold files lock notes.md -- $EDITOR notes.md", "LEASEHOLD_SESSION_SECRET"]),
        (["unlock"], ["leasehold files unlock --all"]),
        (["ls"], ["leasehold files ls '*/src/*'", "[ab] as in a shell"]),
        (["history"], ["leasehold files history --session agent-7"]),
        (
            ["restore"],
            ["leasehold files restore --session agent-7 --json", "The exit code is 4 if a file was lost"],
        ),
    ],
    ids=lambda value: value[0] if value and len(value[0]) < 10 else "",
)
def test_the_help_has_examples(cli_for: Callable[[None], Cli], command: list[str], said: list[str]) -> None:
    answer = cli_for(None).inside("files", *command, "--help", env={"COLUMNS": "200"})
    assert answer.code == 0
    for words in said:
        assert words in answer.out
