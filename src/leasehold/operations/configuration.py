"""Reads purposes from a TOML file or from the environment, and reports all errors of a source together."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import InvalidRequest
from leasehold.operations.lock_names import LockNamePattern
from leasehold.operations.purposes import Purpose, Purposes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PREFIX = "LEASEHOLD_PURPOSE_"
_DEFAULT_VARIABLES = {
    "LOCK_DEFAULT_TTL": "ttl",
    "LOCK_ACQUISITION_TIMEOUT": "wait",
    "LOCK_RETRY_INTERVAL": "retry_interval",
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_MAY_BE_FOREVER = {"wait", "max_hold"}
_RENEW = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def from_toml(path: Path | str, base: Purposes) -> Purposes:
    """See `Purposes.from_toml`."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from error
    reader = _SourceReader(str(path))
    defaults: dict[str, Any] = {}
    purposes: dict[str, dict[str, Any]] = {}
    for key, table in document.items():
        if key not in {"defaults", "purposes"} or not isinstance(table, dict):
            reader.problem(key, "unknown; the tables are [defaults] and [purposes.NAME]")
        elif key == "defaults":
            defaults = reader.settings("defaults", cast("dict[str, Any]", table), _DEFAULTS)
        else:
            for name, settings in cast("dict[str, Any]", table).items():
                if isinstance(settings, dict):
                    where = f"purposes.{name}"
                    purposes[name] = reader.settings(where, cast("dict[str, Any]", settings), _SETTINGS)
                else:
                    reader.problem(f"purposes.{name}", "must be a table, [purposes.NAME]")
    return reader.build(base, defaults, purposes, where=lambda name: f"purposes.{name}")


def from_environ(environ: Mapping[str, str], base: Purposes) -> Purposes:
    """See `Purposes.from_environ`."""
    reader = _SourceReader("the environment")
    defaults: dict[str, Any] = {}
    purposes: dict[str, dict[str, Any]] = {}
    for variable, setting in _DEFAULT_VARIABLES.items():
        if text := environ.get(variable):
            # Spring has the same names, and there a bare number means milliseconds; here it means seconds.
            if re.fullmatch(r"[0-9]{4,}", text):
                reader.problem(variable, f"{text} has no unit; write {text}ms or {text}s")
            else:
                reader.put(defaults, setting, text, variable)
    for variable, text in environ.items():
        if not variable.startswith(_PREFIX):
            continue
        rest = variable.removeprefix(_PREFIX)
        setting = next((each for each in _SETTINGS if rest.endswith("_" + each.upper())), None)
        if setting is None or len(rest) == len(setting) + 1:
            endings = ", ".join(each.upper() for each in _SETTINGS)
            reader.problem(variable, f"unknown; it must be {_PREFIX}NAME_ followed by one of {endings}")
        else:
            name = rest.removesuffix("_" + setting.upper()).lower()
            reader.put(purposes.setdefault(name, {}), setting, text, variable)
    return reader.build(base, defaults, purposes, where=lambda name: f"{_PREFIX}{name.upper()}_*")


class _SourceReader:
    """Reads one source and collects its errors."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: list[str] = []

    def problem(self, where: str, message: str) -> None:
        self._problems.append(f"{where}: {message}")

    def settings(
        self, where: str, table: dict[str, Any], known: dict[str, Callable[[str, Any], Any]]
    ) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for key, value in table.items():
            if key in known:
                self.put(read, key, value, f"{where}.{key}")
            else:
                self.problem(f"{where}.{key}", f"unknown; the settings are {', '.join(known)}")
        return read

    def put(self, settings: dict[str, Any], setting: str, value: object, where: str) -> None:
        try:
            settings[setting] = _SETTINGS[setting](setting, value)
        except InvalidRequest as error:
            self.problem(where, str(error))

    def build(
        self,
        base: Purposes,
        defaults: dict[str, Any],
        purposes: dict[str, dict[str, Any]],
        *,
        where: Callable[[str], str],
    ) -> Purposes:
        made = dict(base)
        for name, settings in purposes.items():
            if name not in base and "pattern" not in settings:
                known = f" (known: {', '.join(base)})" if base else ""
                self.problem(where(name), f"unknown purpose{known}; a new one needs a pattern")
                continue
            try:
                made[name] = _override(base.get(name), name, settings)
            except InvalidRequest as error:
                self.problem(where(name), str(error))
        try:
            Purpose("defaults", "defaults", **defaults)
            made = {name: purpose.with_defaults(defaults) for name, purpose in made.items()}
        except InvalidRequest as error:
            self.problem("the defaults", str(error))
        if self._problems:
            several = f"{len(self._problems)} problems" if len(self._problems) > 1 else "a problem"
            raise InvalidRequest("\n  - ".join([f"{self._source} has {several}:", *self._problems]))
        return Purposes(made.values())


def _override(old: Purpose | None, name: str, settings: dict[str, Any]) -> Purpose:
    if old is None:
        return Purpose(name, **settings)
    new = replace(old, **settings)
    if set(new.parameters) != set(old.parameters):
        raise InvalidRequest(
            f"the pattern {new.pattern!r} must have the parameters of {old.pattern!r}, because the program passes them"
        )
    return new


def _pattern(setting: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{setting} must be text, not {value!r}")
    return LockNamePattern.parse(value).text


def _renew(setting: str, value: object) -> bool:
    renew = value if isinstance(value, bool) else _RENEW.get(str(value).lower())
    if renew is None:
        raise InvalidRequest(f"{setting} must be true or false, not {value!r}")
    return renew


def _seconds(setting: str, value: object) -> float | None:
    """Seconds from a number, or from text with a unit; the purpose itself checks the bounds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if setting in _MAY_BE_FOREVER and text == "forever":
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        forever = ", or 'forever'" if setting in _MAY_BE_FOREVER else ""
        raise InvalidRequest(f"{setting} must be seconds, or like 30s, 50ms, 5m, 1h{forever}, not {value!r}")
    return float(found[1]) * _SECONDS[found[2]]


_DEFAULTS: dict[str, Callable[[str, Any], Any]] = {
    "ttl": _seconds,
    "wait": _seconds,
    "retry_interval": _seconds,
}
_SETTINGS: dict[str, Callable[[str, Any], Any]] = {
    "pattern": _pattern,
    **_DEFAULTS,
    "renew": _renew,
    "max_hold": _seconds,
}
