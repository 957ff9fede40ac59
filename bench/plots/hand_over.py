"""How long a hand-over takes, in round trips: one hill per contestant over a common logarithmic axis."""

import math
from collections import Counter
from statistics import median

from bench.hand_over.holds import HandOvers, percentile
from bench.plots import svg
from bench.plots.palette import COLORS
from bench.result import OURS, Result, Series

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 24, 24, 74, 48
ROW, HILL = 74, 46  # heights: of a contestant's strip, and of the highest point in it
BINS_PER_DECADE = 16
TICK = 6


def draw(results: list[Result]) -> str | None:
    result = next((one for one in results if one.target == "P5"), None)
    rows = [one for name in COLORS if result and (one := result.of(name)) and one.fact("p50")]
    if not rows:
        return None
    spread = {series.contestant: _in_round_trips(series) for series in rows}
    lowest = min(ordered[0] for ordered in spread.values())
    highest = max(percentile(ordered, 0.999) for ordered in spread.values())
    axis = _Axis(math.floor(math.log10(lowest) * 4) / 4, math.ceil(math.log10(highest) * 4) / 4)
    height = TOP + ROW * len(rows) + BOTTOM
    shapes = [*_heading(), *_grid(axis, height)]
    for number, series in enumerate(rows):
        shapes += _row(series, spread[series.contestant], axis, TOP + ROW * (number + 1))
    return svg.page(WIDTH, height, "Time from release to the next holder, in round trips", shapes)


class _Axis:
    """Round trips to pixels; the ends are powers of ten."""

    def __init__(self, first: float, last: float) -> None:
        self.first, self.last = first, last

    def x(self, round_trips: float) -> float:
        share = (math.log10(round_trips) - self.first) / (self.last - self.first)
        return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def bins(self) -> range:
        return range(math.floor(self.first * BINS_PER_DECADE), math.ceil(self.last * BINS_PER_DECADE) + 1)


def _in_round_trips(series: Series) -> list[float]:
    return sorted(
        value for sample in series.samples if isinstance(sample, HandOvers) for value in sample.in_round_trips
    )


def _heading() -> list[str]:
    return [
        svg.text(LEFT, 22, "From release to the next holder, in round trips", size=15, bold=True),
        svg.text(
            LEFT,
            39,
            "one lock, 32 waiters in 2 processes, logarithmic scale; marks: p50 and p99, medians of the rounds",
        ),
    ]


def _grid(axis: _Axis, height: float) -> list[str]:
    shapes: list[str] = []
    for power in range(math.ceil(axis.first), math.floor(axis.last) + 1):
        x = axis.x(10**power)
        shapes += [
            svg.line(x, TOP - 12, x, height - BOTTOM),
            svg.text(x, height - BOTTOM + 18, f"{10**power:g}", anchor="middle"),
        ]
    return [*shapes, svg.text(WIDTH - RIGHT, height - 10, "round trips (PING)", anchor="end")]


def _row(series: Series, ordered: list[float], axis: _Axis, floor: float) -> list[str]:
    name, color = series.contestant, COLORS[series.contestant]
    p50, p99, fairness, again = (median(series.fact(fact)) for fact in ("p50", "p99", "jain", "to itself"))
    figures = f"p50 {p50:.1f}, p99 {p99:.1f}, Jain {fairness:.2f}"
    if again >= 0.01:
        figures += f", {again:.0%} to the same waiter again"
    counts = Counter(math.floor(math.log10(value) * BINS_PER_DECADE) for value in ordered)
    top = max(counts.values())
    hill = [
        (axis.x(10 ** ((number + 0.5) / BINS_PER_DECADE)), floor - HILL * counts[number] / top)
        for number in axis.bins()
    ]
    return [
        svg.area([(hill[0][0], floor), *hill, (hill[-1][0], floor)], color, f"{name}: {figures}"),
        svg.line(LEFT, floor, WIDTH - RIGHT, floor),
        *(svg.bar(axis.x(value) - 1, floor, 2, TICK, color, figures) for value in (p50, p99)),
        svg.text(LEFT, floor - HILL - 8, name, bold=name == OURS),
        svg.text(WIDTH - RIGHT, floor - HILL - 8, figures, anchor="end", bold=name == OURS),
    ]
