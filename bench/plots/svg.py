"""A few SVG shapes, in colours that read on light and on dark pages (no background of their own)."""

from html import escape

INK = "#7a828e"  # 4:1 against white and against near-black
GRID = "#7a828e"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"


def page(width: float, height: float, title: str, shapes: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" font-family="{FONT}" font-size="12" fill="{INK}" role="img" '
        f'aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


def text(
    x: float,
    y: float,
    content: str,
    *,
    anchor: str = "start",
    size: float = 12,
    bold: bool = False,
    color: str = INK,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size:g}" fill="{color}"{weight}>'
        f"{escape(content)}</text>"
    )


def bar(x: float, y: float, width: float, height: float, color: str, tip: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{color}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def area(points: list[tuple[float, float]], color: str, tip: str) -> str:
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polygon points="{corners}" fill="{color}" fill-opacity="0.55" stroke="{color}">'
        f"<title>{escape(tip)}</title></polygon>"
    )


def line(x1: float, y1: float, x2: float, y2: float, *, opacity: float = 0.25) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GRID}" '
        f'stroke-opacity="{opacity:g}"/>'
    )
