"""Cycles per second by number of tasks: grouped bars, logarithmic."""

import math
from statistics import median

from bench.plots import svg
from bench.plots.palette import COLORS
from bench.result import OURS, Result

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 76, 52
BAR_GAP = 3
HEADROOM = 1.5  # above the highest bar, for its figure
GROUP_SHARE = 0.84  # of the group's width that its bars fill
TARGETS = ("P1", "P2", "P3")


def draw(results: list[Result]) -> str | None:
    groups = [result for result in results if result.target in TARGETS]
    bars = [
        (series.contestant, median(series.rates))
        for group in groups
        for series in group.series
        if series.samples
    ]
    if not bars:
        return None
    names = [name for name in COLORS if any(name == contestant for contestant, _ in bars)]
    low = 10 ** math.floor(math.log10(min(rate for _, rate in bars)))
    high = max(rate for _, rate in bars) * HEADROOM
    shapes = [*_heading(names), *_grid(low, high)]
    group_width = (WIDTH - LEFT - RIGHT) / len(groups)
    for number, group in enumerate(groups):
        shapes += _group(group, names, LEFT + number * group_width, group_width, low, high)
    return svg.page(WIDTH, HEIGHT, "Lock cycles per second by number of tasks", shapes)


def _heading(names: list[str]) -> list[str]:
    shapes = [
        svg.text(LEFT, 22, "Acquire + release, cycles per second", size=15, bold=True),
        svg.text(LEFT, 39, "median of the rounds, logarithmic scale, own keys, one process"),
    ]
    x = float(LEFT)
    for name in names:
        shapes += [svg.bar(x, 51, 11, 11, COLORS[name], name), svg.text(x + 16, 61, name, bold=name == OURS)]
        x += 16 + 7 * len(name) + 18
    return shapes


def _grid(low: float, high: float) -> list[str]:
    shapes: list[str] = []
    for power in range(round(math.log10(low)), math.floor(math.log10(high)) + 1):
        y = _y(10**power, low, high)
        shapes += [
            svg.line(LEFT, y, WIDTH - RIGHT, y),
            svg.text(LEFT - 8, y + 4, _short(10**power), anchor="end"),
        ]
    return shapes


def _group(result: Result, names: list[str], left: float, width: float, low: float, high: float) -> list[str]:
    shapes = [
        svg.text(left + width / 2, HEIGHT - BOTTOM + 22, result.work, anchor="middle", size=13, bold=True)
    ]
    slot = width * GROUP_SHARE / len(names)
    first = left + width * (1 - GROUP_SHARE) / 2
    for number, name in enumerate(names):
        series = result.of(name)
        if series is None or not series.samples:
            continue
        rate = median(series.rates)
        x, y = first + number * slot, _y(rate, low, high)
        tip = f"{name}, {result.work}: {rate:,.0f} cycles per second"
        shapes += [
            svg.bar(x + BAR_GAP / 2, y, slot - BAR_GAP, HEIGHT - BOTTOM - y, COLORS[name], tip),
            svg.text(x + slot / 2, y - 5, _short(rate), anchor="middle", size=11, bold=name == OURS),
        ]
    return shapes


def _y(rate: float, low: float, high: float) -> float:
    share = (math.log10(rate) - math.log10(low)) / (math.log10(high) - math.log10(low))
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _short(rate: float) -> str:
    if rate < 1000:
        return f"{rate:.0f}"
    thousands = rate / 1000
    return f"{thousands:.2g}k" if thousands < 10 else f"{thousands:,.0f}k"
