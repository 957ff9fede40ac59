"""Progress on stderr: a bar on a terminal, one line per contest elsewhere."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


class Progress:
    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}"),
            console=self._console,
            # Redrawn only between measurements: a refreshing thread would compete with the measurement.
            auto_refresh=False,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def begin(self, title: str, steps: int) -> None:
        self._title, self._began_at = title, time.monotonic()
        self._task = self._bars.add_task(title, total=steps, now="")
        self._redraw()

    def step(self, now: str) -> None:
        self._bars.update(self._task, advance=1, now=now)
        self._redraw()

    def end(self) -> None:
        self._bars.update(self._task, now="")
        self._redraw()
        if not self._console.is_terminal:
            self.say(f"{self._title}: {time.monotonic() - self._began_at:.1f} s")

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False)

    def _redraw(self) -> None:
        if self._console.is_terminal:
            self._bars.refresh()
