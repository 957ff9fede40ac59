"""A real PostgreSQL server for the session, on loopback, in a directory of its own."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import psycopg

from tests.support.eventually import LIMIT
from tests.support.launcher import launch
from tests.support.servers import reserve_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_alive: weakref.WeakSet[Postgres] = weakref.WeakSet()


class PostgresFailedError(Exception):
    """There is no PostgreSQL, or it did not come up; the message says what to do, or ends with its log."""


def find_binaries() -> Path:
    """The directory of initdb and postgres; the newest, where Debian has several."""

    def version(directory: Path) -> list[int]:
        return [int(part) for part in directory.parent.name.split(".") if part.isdigit()]

    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    if initdb := shutil.which("initdb"):
        found.append(Path(initdb).resolve().parent)
    for directory in found:
        if all(os.access(directory / name, os.X_OK) for name in ("initdb", "postgres")):
            return directory
    raise PostgresFailedError(
        "PostgreSQL is not installed; run `make system` (or apt-get install postgresql)"
    )


class PostgresAddress:
    """The address of a database on a running server; `postgres` is the one that all tests share."""

    def __init__(self, port: int, name: str = "postgres") -> None:
        self.port = port
        self.name = name

    def url(self, driver: str = "psycopg") -> str:
        """For SQLAlchemy, with any driver: psycopg (sync and async) or asyncpg."""
        return f"postgresql+{driver}://postgres@127.0.0.1:{self.port}/{self.name}"

    def connect(self) -> psycopg.Connection:
        """A connection that commits each statement, for looking inside."""
        return psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=postgres dbname={self.name} connect_timeout={LIMIT:.0f}",
            autocommit=True,
        )

    @contextmanager
    def database(self, name: str) -> Iterator[PostgresAddress]:
        """An empty database whose name begins with `name` and is used by nothing else, dropped in the end."""
        made = PostgresAddress(self.port, f"{name}_{uuid4().hex}")
        with self.connect() as connection:
            # From template0: CREATE DATABASE fails if there is a connection to the template.
            connection.execute(f"CREATE DATABASE {made.name} TEMPLATE template0")
        try:
            yield made
        finally:
            with self.connect() as connection:
                connection.execute(f"DROP DATABASE {made.name} WITH (FORCE)")


class Postgres(PostgresAddress):
    """One server with one empty database, which is deleted at the end and never syncs to disk."""

    def __init__(self) -> None:
        self._binaries = find_binaries()
        self.directory = Path(tempfile.mkdtemp(prefix="lh-pg-"))
        self._reserved = reserve_port()
        super().__init__(self._reserved.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            try:
                user = pwd.getpwnam("postgres")
            except KeyError:
                raise PostgresFailedError("as root, PostgreSQL needs a system user named postgres") from None
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            # Changing the user clears the signal that `launch` asks the kernel for, so it is asked for again.
            self._as_user = [
                str(shutil.which("setpriv")), "--reuid", "postgres", "--regid", "postgres", "--init-groups",
                "--pdeathsig", "QUIT",
            ]  # fmt: skip
        _alive.add(self)

    def start(self, within: float = LIMIT) -> Self:
        """Make the database and wait until the server answers."""
        made = subprocess.run(
            [*self._as_user, self._binaries / "initdb", "-D", self.directory / "data", "-U", "postgres",
             "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"],
            capture_output=True, text=True, timeout=within, check=False, cwd="/",
        )  # fmt: skip
        if made.returncode != 0:
            raise PostgresFailedError(f"initdb failed\n{made.stdout}{made.stderr}")
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.directory,
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "shared_buffers": "16MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("wb") as log:
            self._process = launch(
                [
                    *self._as_user,
                    str(self._binaries / "postgres"),
                    "-D",
                    str(self.directory / "data"),
                    *options,
                ],
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self._wait_ready(within)
        return self

    def _wait_ready(self, within: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + within
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.directory / "log").read_text(errors="replace")
                    raise PostgresFailedError(
                        f"PostgreSQL did not come up: {error}\n{log[-3000:]}"
                    ) from error
                time.sleep(0.02)
            else:
                return

    def close(self) -> None:
        """End it at once and remove everything."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(LIMIT)
        self._reserved.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        _alive.discard(self)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


@atexit.register
def _end_all() -> None:
    for server in list(_alive):
        server.close()
