"""Purposes from a TOML file and from the environment. All that is wrong with one source is told together."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import InvalidRequest
from leasehold.operations.lock_names import Pattern
from leasehold.operations.purposes import Purpose, Purposes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PREFIX = "LEASEHOLD_PURPOSE_"
_SEEDS = {
    "LOCK_DEFAULT_TTL": "ttl",
    "LOCK_ACQUISITION_TIMEOUT": "wait",
    "LOCK_RETRY_INTERVAL": "retry_interval",
}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_FOREVER = {"wait", "max_hold"}
_RENEW = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def from_toml(path: Path | str, base: Purposes) -> Purposes:
    """See `Purposes.from_toml`."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from error
    reading = _Reading(str(path))
    defaults: dict[str, Any] = {}
    purposes: dict[str, dict[str, Any]] = {}
    for key, table in document.items():
        if key not in {"defaults", "purposes"} or not isinstance(table, dict):
            reading.problem(key, "unknown; there are the tables [defaults] and [purposes.NAME]")
        elif key == "defaults":
            defaults = reading.settings("defaults", cast("dict[str, Any]", table), _DEFAULTS)
        else:
            for name, settings in cast("dict[str, Any]", table).items():
                if isinstance(settings, dict):
                    where = f"purposes.{name}"
                    purposes[name] = reading.settings(where, cast("dict[str, Any]", settings), _SETTINGS)
                else:
                    reading.problem(f"purposes.{name}", "must be a table, [purposes.NAME]")
    return reading.build(base, defaults, purposes, where=lambda name: f"purposes.{name}")


def from_environ(environ: Mapping[str, str], base: Purposes) -> Purposes:
    """See `Purposes.from_environ`."""
    reading = _Reading("the environment")
    defaults: dict[str, Any] = {}
    purposes: dict[str, dict[str, Any]] = {}
    for variable, setting in _SEEDS.items():
        if text := environ.get(variable):
            # What these are called in Spring, where a bare number means milliseconds; here it means seconds.
            if re.fullmatch(r"[0-9]{4,}", text):
                reading.problem(variable, f"{text} of what? Write {text}ms or {text}s")
            else:
                reading.put(defaults, setting, text, variable)
    for variable, text in environ.items():
        if not variable.startswith(_PREFIX):
            continue
        rest = variable.removeprefix(_PREFIX)
        setting = next((each for each in _SETTINGS if rest.endswith("_" + each.upper())), None)
        if setting is None or len(rest) == len(setting) + 1:
            endings = ", ".join(each.upper() for each in _SETTINGS)
            reading.problem(variable, f"unknown; it must be {_PREFIX}NAME_ and one of {endings}")
        else:
            name = rest.removesuffix("_" + setting.upper()).lower()
            reading.put(purposes.setdefault(name, {}), setting, text, variable)
    return reading.build(base, defaults, purposes, where=lambda name: f"{_PREFIX}{name.upper()}_*")


class _Reading:
    """One source being read, and what is wrong with it so far."""

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
                self.problem(f"{where}.{key}", f"unknown; there are {', '.join(known)}")
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
                known = f", only {', '.join(base)}" if base else ""
                self.problem(where(name), f"there is no such purpose{known}; a new one needs a pattern")
                continue
            try:
                made[name] = _made_of(base.get(name), name, settings)
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


def _made_of(old: Purpose | None, name: str, settings: dict[str, Any]) -> Purpose:
    if old is None:
        return Purpose(name, **settings)
    new = replace(old, **settings)
    if set(new.parameters) != set(old.parameters):
        raise InvalidRequest(
            f"the pattern {new.pattern!r} must have the parameters of {old.pattern!r}, because the program gives them"
        )
    return new


def _pattern(setting: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{setting} must be text, not {value!r}")
    return Pattern.parse(value).text


def _renew(setting: str, value: object) -> bool:
    renew = value if isinstance(value, bool) else _RENEW.get(str(value).lower())
    if renew is None:
        raise InvalidRequest(f"{setting} must be true or false, not {value!r}")
    return renew


def _seconds(setting: str, value: object) -> float | None:
    """Seconds from a number, or from text with a unit; the bounds are checked by the purpose itself."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if setting in _FOREVER and text == "forever":
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        forever = ", or 'forever'" if setting in _FOREVER else ""
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
