"""Writes the results as JSON: the raw figures of every round and the machine's facts, without host name or paths."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from bench.plan import Plan
from bench.result import Check, Result, Series

PACKAGES = (
    "leasehold",
    "hiredis",
    "redis",
    "uvloop",
    "python-redis-lock",
    "pottery",
    "valkey-glide",
    "fastapi",
    "uvicorn",
    "websockets",
    "sqlalchemy",
)


def write(path: Path, results: list[Result], *, plan: Plan, server_version: str) -> None:
    record = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "mode": plan.mode,
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.system(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "server": server_version,
            "packages": {name: _version(name) for name in PACKAGES},
        },
        "results": [_result(result) for result in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _result(result: Result) -> dict[str, Any]:
    return {
        "target": result.target,
        "work": result.work,
        "workers": result.workers,
        "unit": result.unit,
        "judged_by": result.judged_by,
        "facts": result.facts,
        "checks": [_check(check) for check in result.checks],
        "series": [_series(series) for series in result.series],
    }


def _check(check: Check) -> dict[str, Any]:
    value = None if check.value is None else round(check.value, 4)
    return {"what": check.what, "target": check.target, "value": value, "verdict": check.verdict}


def _series(series: Series) -> dict[str, Any]:
    rates = series.rates
    return {
        "contestant": series.contestant,
        "note": series.note,
        "best": round(max(rates), 1) if rates else None,
        "median": round(median(rates), 1) if rates else None,
        "min": round(min(rates), 1) if rates else None,
        "max": round(max(rates), 1) if rates else None,
        "server_us_per_call": _rounded(series.server_us_per_call),
        "calls_per_cycle": _rounded(series.calls_per_cycle),
        "rounds": [
            {
                "cycles": sample.cycles,
                "seconds": round(sample.seconds, 6),
                "per_second": round(sample.per_second, 1),
                **{name: round(value, 4) for name, value in sample.facts.items()},
                "server": {
                    name: {"calls": calls, "usec": usec} for name, (calls, usec) in sample.commands.items()
                },
            }
            for sample in series.samples
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
