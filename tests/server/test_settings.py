"""Settings: flags before the environment before the defaults; each wrong value is listed by its variable."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from leasehold.documents.timings import Times
from leasehold.errors import InvalidRequest
from leasehold.server import Settings
from leasehold.server.settings import is_loopback, variable_of

SERVICE_PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def test_the_defaults_need_no_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    settings = Settings.load()
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8000, 1)
    assert settings.data_dir == tmp_path / "leasehold"
    assert settings.database_url == f"sqlite:///{tmp_path}/leasehold/documents.sqlite"
    assert settings.store_url is None
    assert settings.times == Times(ttl=45, heartbeat=10, idle=30)
    assert not settings.demo
    assert not settings.docs_are_open
    assert not (tmp_path / "leasehold").exists()


def test_a_flag_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_PORT", "9000")
    monkeypatch.setenv("LEASEHOLD_WORKERS", "3")
    settings = Settings.load(port=9001, workers=None)
    assert (settings.port, settings.workers) == (9001, 3)


def test_an_empty_variable_is_not_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_PORT", "")
    monkeypatch.setenv("LEASEHOLD_STORE_URL", "")
    monkeypatch.setenv("REDIS_HOST", "")
    assert (Settings.load().port, Settings.load().store_url) == (8000, None)


def test_all_wrong_settings_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "LEASEHOLD_PORT": "99999",
        "LEASEHOLD_WORKERS": "many",
        "LEASEHOLD_DATABASE_URL": "mysql://root:hunter2@db/x",
        "LEASEHOLD_STORE_URL": "http://store:hunter2@x",
        "LEASEHOLD_DOCUMENT_TTL": "nan",
        "LEASEHOLD_SECRET_KEY": "hunter2",
        "LEASEHOLD_ALLOWED_ORIGINS": "docs.example.com",
        "LEASEHOLD_RATE_ACQUIRE": "often",
        "LEASEHOLD_LOG_LEVEL": "loud",
    }
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidRequest) as told:
        Settings.load()
    lines = str(told.value).splitlines()[1:]
    assert {line.partition(":")[0] for line in lines} == set(wrong)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("given", "heartbeat"),
    [
        pytest.param({"document_ttl": 45}, 10, id="as-usual"),
        pytest.param({"document_ttl": 90}, 10, id="longer"),
        pytest.param({"document_ttl": 18}, 4, id="shrinks-with-the-ttl"),
        pytest.param({"document_ttl": 18, "document_heartbeat": 8.9}, 8.9, id="as-given"),
        pytest.param({"document_heartbeat": 22.4}, 22.4, id="just-under-half"),
    ],
)
def test_the_heartbeat_fits_into_the_ttl(given: dict[str, float], heartbeat: float) -> None:
    assert Settings.load(**given).times.heartbeat == pytest.approx(heartbeat)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"document_ttl": 20, "document_heartbeat": 10}, id="exactly-twice"),
        pytest.param({"document_heartbeat": 30}, id="above-the-usual-ttl"),
    ],
)
def test_a_ttl_not_above_twice_the_heartbeat_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(
        InvalidRequest, match=r"LEASEHOLD_DOCUMENT_HEARTBEAT.*above twice.*LEASEHOLD_DOCUMENT_TTL"
    ):
        Settings.load(**given)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("LEASEHOLD_DOCUMENT_TTL", "abc", "must be a number"),
        ("LEASEHOLD_WORKERS", "abc", "must be a whole number"),
        ("LEASEHOLD_WORKERS", "1.5", "must be a whole number"),
        ("LEASEHOLD_DEMO", "maybe", "must be true or false"),
        ("LEASEHOLD_WORKERS", "0", "must be greater than or equal to 1"),
    ],
)
def test_a_wrong_value_is_answered_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidRequest) as refused:
        Settings.load()
    assert str(refused.value).splitlines()[1:] == [f"{name}: {said}"]


def test_the_time_to_save_at_a_take_over_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load().times.save_within == 3
    monkeypatch.setenv("LEASEHOLD_DOCUMENT_SAVE_WITHIN", "8")
    assert Settings.load().times.save_within == 8


@pytest.mark.parametrize("name", ["LEASEHOLD_DOCUMENT_TTL", "LEASEHOLD_DOCUMENT_SAVE_WITHIN"])
@pytest.mark.parametrize("value", ["0", "-1", "1e12", "inf", "x"])
def test_times_are_bounded(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidRequest, match=name):
        Settings.load()


@pytest.mark.parametrize(
    ("environ", "store"),
    [
        ({"REDIS_HOST": "cache"}, "redis://cache:6379"),
        ({"REDIS_PORT": "7000"}, "redis://localhost:7000"),
        ({"REDIS_HOST": "::1", "REDIS_PORT": "7000"}, "redis://[::1]:7000"),
        ({"REDIS_HOST": "cache", "LEASEHOLD_STORE_URL": "valkey://here"}, "valkey://here"),
        ({"REDIS_PORT": "tcp://10.0.0.1:6379", "LEASEHOLD_STORE_URL": "valkey://here"}, "valkey://here"),
    ],
    ids=["host", "port", "both", "a-url-goes-first", "what-kubernetes-sets-is-not-looked-at"],
)
def test_the_store_is_found(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], store: str) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    # A data directory is for the documents too, so setting one does not select the embedded store.
    assert Settings.load(data_dir="here").store_url == store


def test_a_variable_set_by_kubernetes_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PORT", "tcp://10.0.0.1:6379")
    with pytest.raises(InvalidRequest, match="REDIS_PORT must be a number"):
        Settings.load()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com", "localhost.example.com"])
def test_the_demo_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(InvalidRequest, match=r"LEASEHOLD_DEMO.*loopback"):
        Settings.load(demo=True, host=host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback_is_loopback(host: str) -> None:
    assert is_loopback(host)
    assert Settings.load(demo=True, host=host).docs_are_open


def test_docs_can_be_closed_in_the_demo_and_open_without() -> None:
    assert not Settings.load(demo=True, expose_docs=False).docs_are_open
    assert Settings.load(expose_docs=True).docs_are_open


def test_cookies_are_for_https_unless_on_loopback() -> None:
    assert not Settings.load().cookies_are_secure
    assert Settings.load(host="0.0.0.0").cookies_are_secure
    assert not Settings.load(host="0.0.0.0", secure_cookies=False).cookies_are_secure


def test_pages_of_the_server_itself_may_open_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_ALLOWED_ORIGINS", "https://Docs.example.com/, http://a.example:81")
    assert Settings.load(port=81).origins == {
        "http://127.0.0.1:81",
        "http://localhost:81",
        "http://[::1]:81",
        "https://docs.example.com",
        "http://a.example:81",
    }
    assert "http://10.0.0.1:81" in Settings.load(port=81, host="10.0.0.1").origins
    assert "http://localhost:81" not in Settings.load(port=81, host="10.0.0.1").origins


@pytest.mark.parametrize("origin", ["*", "null", "docs.example.com", "https://x/path", "ftp://x", "https://"])
def test_a_value_that_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(InvalidRequest, match="LEASEHOLD_CORS_ORIGINS"):
        Settings.load(cors_origins=origin)


def test_the_bytes_that_may_be_saved_are_at_least_a_document_s() -> None:
    assert Settings.load(max_content_bytes=2048, rate_content_bytes="2048/hour").rate_content_bytes
    assert Settings.load(rate_content_bytes="off").rate_content_bytes == "off"
    for rate in ("2047/hour", "often"):
        with pytest.raises(InvalidRequest, match="LEASEHOLD_RATE_CONTENT_BYTES"):
            Settings.load(max_content_bytes=2048, rate_content_bytes=rate)


def test_secrets_are_not_shown() -> None:
    given: dict[str, Any] = {
        "secret_key": "canary-" * 8,
        "database_url": "postgresql://me:canary@db/x",
        "store_url": "redis://:canary@store",
    }
    settings = Settings.load(**given)
    assert "canary" not in repr(settings)
    assert "canary" not in str(settings)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings.load().port = 1  # type: ignore[misc] - on purpose


def test_the_library_reads_no_environment_when_it_is_imported(spawn: Any) -> None:
    child = spawn("import os; os.environ['LEASEHOLD_PORT'] = 'x'; import leasehold.server; report(done=True)")
    assert child.read() == {"done": True}


DESCRIBED = {
    "LEASEHOLD_DATA_DIR": "the user's data directory",
    "LEASEHOLD_PAGE_DIR": "the one inside the package",
    "LEASEHOLD_DATABASE_URL": "SQLite in the data directory",
    "LEASEHOLD_STORE_URL": "`REDIS_HOST`, else an embedded Valkey in the data directory",
    "LEASEHOLD_DOCUMENT_HEARTBEAT": "10; proportionally less with a ttl below 45",
    "LEASEHOLD_EXPOSE_DOCS": "only with the demo",
    "LEASEHOLD_SECRET_KEY": "generated once, in the data directory",
    "LEASEHOLD_SECURE_COOKIES": "unless listening on loopback",
    "LEASEHOLD_ALLOWED_HOSTS": "any; listening on loopback, no other",
    "LEASEHOLD_METRICS_PORT": "none",
    "LEASEHOLD_METRICS_TOKEN": "no access",
}
"""Defaults that depend on something else, in the words of the page."""


def test_every_setting_is_in_the_documentation_with_its_default() -> None:
    rows = re.findall(
        r"^\| (`(?:LEASEHOLD|REDIS)_.*?) \| .* \| ?(.*?) ?\|$", _settings_of_the_service(), re.MULTILINE
    )
    shown: dict[str, str] = {}
    for names, defaults in rows:
        variables = re.findall(r"`([A-Z_0-9]+)`", names)
        shown |= zip_longest(
            variables, [defaults] if len(variables) == 1 else defaults.split(", "), fillvalue=""
        )
    settings = Settings.load()
    expected = {
        variable: DESCRIBED.get(variable, _as_written(getattr(settings, name)))
        for name, variable in ((name, variable_of(name)) for name in Settings.model_fields)
    }
    assert shown == expected


def _settings_of_the_service() -> str:
    return (
        SERVICE_PAGE.read_text(encoding="utf-8")
        .partition("## The document service")[2]
        .partition("\n### ")[0]
    )


def _as_written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else "" if value in (None, ()) else str(value)


def test_the_settings_that_the_page_on_security_names_exist_with_their_defaults() -> None:
    page = SERVICE_PAGE.with_name("security.md").read_text(encoding="utf-8")
    fields = {variable_of(name): name for name in Settings.model_fields}
    assert set(re.findall(r"`(LEASEHOLD_\w+)`", page)) - set(fields) == set()
    settings = Settings.load()
    shown = dict(re.findall(r"`(LEASEHOLD_\w+)`: (.*?)(?:;| \|)", page))
    assert shown == {variable: _as_written(getattr(settings, fields[variable])) for variable in shown}
    limits = {
        variable
        for variable, name in fields.items()
        if name.startswith(("rate_", "max_", "request_", "login_"))
    }
    assert limits <= set(shown), "each limit is on the page"
