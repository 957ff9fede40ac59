"""Options that several commands share."""

from __future__ import annotations

from leasehold.cli.parser import Argument, Option
from leasehold.errors import InvalidRequest

_STORE = "Store"


def parse_wait(text: str) -> float | None:
    """The seconds of ``--wait``; None for ``forever``."""
    if text == "forever":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"--wait takes a number of seconds or 'forever', not {text!r}") from None


LOCK_NAME = Argument("NAME", "The lock: any text of up to 512 bytes.")
STORE = (
    Option(
        "--url",
        "The URL of the store: redis://, redis+sentinel://, redis+cluster:// (rediss… with TLS) or unix://. "
        "Default: LEASEHOLD_STORE_URL, else REDIS_HOST and REDIS_PORT, else an embedded Valkey.",
        group=_STORE,
    ),
    Option(
        "--data-dir",
        "The data directory of the embedded Valkey. Default: LEASEHOLD_DATA_DIR, else the user's data directory.",
        group=_STORE,
    ),
    Option(
        "--namespace",
        "The first part of every key.",
        default="lock",
        variable="LEASEHOLD_NAMESPACE",
        group=_STORE,
    ),
    Option(
        "--timeout",
        "Seconds to wait for each reply of the store.",
        float,
        2,
        variable="LEASEHOLD_TIMEOUT",
        metavar="SECONDS",
        group=_STORE,
    ),
)
ALLOW_EVICTION = Option("--allow-eviction", "Accept a server that may evict held locks.", bool, group=_STORE)
JSON = Option("--json", "Print JSON on stdout; report errors in JSON on stderr.", bool)

FILE_PATH = Argument(
    "PATH", "The file, relative to the current directory or absolute; it need not exist yet."
)
_SESSION = "Session"
SESSION = (
    Option(
        "--session",
        "The session's id, shown to others: letters, digits, - and _. Default: LEASEHOLD_SESSION, else "
        "cli-USER-HOST.",
        metavar="ID",
        group=_SESSION,
    ),
    Option(
        "--secret-file",
        "The file with the session's secret. Default: the secret itself in LEASEHOLD_SESSION_SECRET, else the file "
        "in LEASEHOLD_SESSION_SECRET_FILE, else a file in the user's data directory.",
        group=_SESSION,
    ),
)
PLACE = (
    Option(
        "--root",
        "Refuse files outside this directory. Default: LEASEHOLD_ROOT, else with --project the current directory, "
        "else /.",
        metavar="DIR",
    ),
    Option(
        "--project",
        "Name the locks after this project and the path below the root, for machines that keep the files in "
        "different directories. Default: LEASEHOLD_PROJECT.",
        metavar="NAME",
    ),
)
