"""Options that several commands have."""

from __future__ import annotations

from leasehold.cli.parser import Argument, Option
from leasehold.errors import InvalidRequest

_STORE = "Store"


def seconds_to_wait(text: str) -> float | None:
    """What ``--wait`` says; None for ``forever``."""
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
        "Where the store is: redis://, rediss://, valkey://, valkeys:// or unix://. "
        "Default: LEASEHOLD_STORE_URL, else REDIS_HOST and REDIS_PORT, else an embedded Valkey.",
        group=_STORE,
    ),
    Option(
        "--data-dir",
        "Where the embedded Valkey keeps its data. Default: LEASEHOLD_DATA_DIR, else the user's data directory.",
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
        "Seconds to wait for each answer of the store.",
        float,
        2,
        variable="LEASEHOLD_TIMEOUT",
        metavar="SECONDS",
        group=_STORE,
    ),
)
ALLOW_EVICTION = Option("--allow-eviction", "Use a server that may drop held locks.", bool, group=_STORE)
JSON = Option("--json", "Answer in JSON on stdout; report errors in JSON on stderr.", bool)

FILE_PATH = Argument("PATH", "The file, as you would open it; it need not exist yet.")
_SESSION = "Session"
SESSION = (
    Option(
        "--session",
        "Who you are to others: letters, digits, - and _. Default: LEASEHOLD_SESSION, else cli-USER-HOST.",
        metavar="ID",
        group=_SESSION,
    ),
    Option(
        "--secret-file",
        "Where the session's secret is. Default: LEASEHOLD_SESSION_SECRET has the secret itself, else "
        "LEASEHOLD_SESSION_SECRET_FILE, else a file in the user's data directory.",
        group=_SESSION,
    ),
)
PLACE = (
    Option(
        "--root",
        "Refuse files that are not below this directory. Default: LEASEHOLD_ROOT, else with --project the "
        "current directory, else /.",
        metavar="DIR",
    ),
    Option(
        "--project",
        "Name the locks after this project and the path below the root, for machines that have the files at "
        "different places. Default: LEASEHOLD_PROJECT.",
        metavar="NAME",
    ),
)
