"""The plots of the documentation. A plot is a function from results to SVG, or None when its targets were not run."""

from collections.abc import Callable
from pathlib import Path

from bench.plots import hand_over, throughput
from bench.result import Result

ALL: dict[str, Callable[[list[Result]], str | None]] = {
    "throughput.svg": throughput.draw,
    "hand_over.svg": hand_over.draw,
}


def write(directory: Path, results: list[Result]) -> list[Path]:
    """Write the plots whose targets were run, and return their paths."""
    written: list[Path] = []
    for name, draw in ALL.items():
        if svg := draw(results):
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / name
            path.write_text(svg, encoding="utf-8")
            written.append(path)
    return written
