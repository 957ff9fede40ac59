"""The secret: created once, readable only by its user, the same for every process."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from leasehold.errors import InvalidRequest
from leasehold.server.auth.signing_keys import SECRET_FILE, SigningKeys, load_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_it_is_created_once_and_found_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = load_keys(None, data)
    assert load_keys(None, data) == made
    assert load_keys(None, tmp_path / "other") != made
    assert stat.S_IMODE((data / SECRET_FILE).stat().st_mode) == 0o600
    assert [path.name for path in data.iterdir()] == [SECRET_FILE]


def test_concurrent_threads_get_the_same(tmp_path: Path) -> None:
    def load(data: Path) -> bytes:
        at_once.wait()
        return load_keys(None, data).secret

    at_once = Barrier(8)
    with ThreadPoolExecutor(8) as crowd:
        for number in range(30):
            data = tmp_path / str(number)
            data.mkdir(mode=0o700)
            assert len(set(crowd.map(load, [data] * 8))) == 1
            assert [path.name for path in data.iterdir()] == [SECRET_FILE]


def test_processes_get_the_same(tmp_path: Path, spawn: Callable[..., Any]) -> None:
    code = """
        from pathlib import Path
        from leasehold.server.auth.signing_keys import load_keys
        parent.send(ready=True)
        parent.receive()
        report(key=load_keys(None, Path(args[0])).of("x").hex())
    """
    children = [spawn(code, str(tmp_path / "data")) for _ in range(4)]
    for child in children:
        child.read()
    for child in children:
        child.send()
    assert len({child.read()["key"] for child in children}) == 1


def test_a_given_secret_is_not_stored(tmp_path: Path) -> None:
    load_keys(SecretStr("a secret from the settings, long enough"), tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_each_purpose_has_its_own() -> None:
    keys = SigningKeys(b"secret")
    assert keys.of("a") == keys.of("a")
    assert keys.of("a") != keys.of("b")
    assert len(keys.of("a")) == 32
    assert "secret" not in repr(keys).replace("SigningKeys", "")


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_keys(None, tmp_path / "data")
    (tmp_path / "data" / SECRET_FILE).chmod(0o644)
    with pytest.raises(InvalidRequest, match=r"other users can read .*: chmod 600"):
        load_keys(None, tmp_path / "data")


@pytest.mark.parametrize("text", ["", "short", "\n"], ids=["empty", "short", "blank"])
def test_an_invalid_secret_is_refused(tmp_path: Path, text: str) -> None:
    load_keys(None, tmp_path / "data")
    (tmp_path / "data" / SECRET_FILE).write_text(text)
    with pytest.raises(InvalidRequest, match="too short"):
        load_keys(None, tmp_path / "data")


def test_a_directory_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest, match="give a directory"):
        load_keys(None, tmp_path / "file")
