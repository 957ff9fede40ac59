"""Prints the results: the targets first, then their figures."""

from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from bench.result import OURS, Result, Series

STYLES = {"pass": "green", "miss": "bold red", "not measured": "yellow"}
PLAIN_WIDTH = 100


def show(results: list[Result]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    console.print(_promises(results))
    console.print(_figures(results))
    for result in results:
        if result.facts:
            console.print(_facts(result))


def _promises(results: list[Result]) -> Table:
    table = _table("Targets", "work", "leasehold is", ">target", ">result", "verdict")
    for result in results:
        for check in result.checks:
            value = "-" if check.value is None else f"{check.value:.2f}"
            verdict = f"[{STYLES[check.verdict]}]{check.verdict}[/]"
            table.add_row(_heading(result), check.what, check.target, value, verdict)
    ways = {way: sorted({one.target for one in results if one.judged_by == way}) for way in _ways(results)}
    table.caption = "; ".join(f"{', '.join(targets)} by {way}" for way, targets in ways.items())
    table.caption_justify = "left"
    return table


def _figures(results: list[Result]) -> Table:
    table = _table("Figures", "contestant", ">median", ">min … max", ">rounds", ">µs/call", ">calls")
    for result in results:
        table.add_row(_heading(result), "", result.unit, style="italic")
        for series in result.series:
            style = "bold" if series.contestant == OURS else None
            table.add_row(f"  {series.contestant}", *_cells(series), style=style)
        table.add_section()
    table.caption = "µs/call: time in the server per command sent; calls: commands sent per cycle"
    table.caption_justify = "left"
    return table


def _facts(result: Result) -> Table:
    names = list(
        dict.fromkeys(name for series in result.series for sample in series.samples for name in sample.facts)
    )
    table = _table(_heading(result), "contestant", *(f">{name}" for name in names))
    for series in result.series:
        if any(series.fact(name) for name in names):
            style = "bold" if series.contestant == OURS else None
            cells = [f"{median(series.fact(name)):,.2f}" for name in names]
            table.add_row(series.contestant, *cells, style=style)
    table.caption = f"medians of the rounds; {result.facts}"
    table.caption_justify = "left"
    return table


def _heading(result: Result) -> str:
    return f"{result.target} {result.work}"


def _ways(results: list[Result]) -> list[str]:
    return list(dict.fromkeys(result.judged_by for result in results))


def _table(title: str, *headings: str) -> Table:
    """A heading that starts with > is a column of figures."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for heading in headings:
        table.add_column(
            heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left", no_wrap=True
        )
    return table


def _cells(series: Series) -> list[str]:
    if not series.samples:
        return ["-", (series.note or "-").partition(":")[0], "", "", ""]
    rates = series.rates
    return [
        f"{median(rates):,.0f}",
        f"{min(rates):,.0f} … {max(rates):,.0f}",
        str(len(rates)),
        _or_dash(series.server_us_per_call),
        _or_dash(series.calls_per_cycle),
    ]


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
