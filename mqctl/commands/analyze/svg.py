"""A chart as SVG, by hand: a report that needs no library opens in any browser, and in ten years."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Final

from mqctl.commands.analyze.chart import GROUP, Chart, number_text

WIDTH: Final = 960
HEIGHT: Final = 420
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 20, 60
COLOURS: Final = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)
_TICKS: Final = 5


def svg_of(chart: Chart) -> str:
    highest = max((y for points in chart.series.values() for _, y in points), default=0.0)
    top = nice_above(highest)

    def place_y(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(y, 0.0) / top

    marks = _bars(chart, place_y) if chart.is_bars else _lines(chart, place_y)
    parts = [*_y_axis(chart, top, place_y), *marks]
    font = 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {font}>'
    return "\n".join([head, *parts, "</svg>"])


def nice_above(highest: float) -> float:
    """The next round number: 1, 2 or 5 times a power of ten."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= highest)


def _y_axis(chart: Chart, top: float, place_y: Callable[[float], float]) -> list[str]:
    parts = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = place_y(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number_text(value)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 14 {middle:.0f})" text-anchor="middle"'
    return [*parts, f'<text x="14" y="{middle:.0f}" {turned}>{escape(chart.y_name)}</text>']


def _x_label(x: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{escape(text)}</text>'


def _lines(chart: Chart, place_y: Callable[[float], float]) -> list[str]:
    every = [x for points in chart.series.values() for x, _ in points]
    first, last = min(every), max(every)

    def place_x(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * ((x - first) / (last - first) if last > first else 0.5)

    parts = []
    for tick in range(_TICKS if last > first else 1):
        x = first + (last - first) * tick / (_TICKS - 1)
        # The outer labels are moved in, so that they are not cut off.
        parts.append(_x_label(min(max(place_x(x), LEFT + 20), WIDTH - RIGHT - 50), chart.x_text(x)))
    for (name, points), colour in zip(chart.series.items(), COLOURS, strict=False):
        title = f"<title>{escape(name)}</title>"
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2">{title}</polyline>')
        if len(points) == 1:
            (x, y), *_ = points
            parts.append(f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="3" fill="{colour}">{title}</circle>')
    return parts


def _bars(chart: Chart, place_y: Callable[[float], float]) -> list[str]:
    """A group of bars for each x, one for each series."""
    places = {x: at for at, x in enumerate(chart.xs)}
    group = (WIDTH - LEFT - RIGHT) / max(len(places), 1)
    bar = group * GROUP / max(len(chart.series), 1)
    room = max(int(group / 7), 3)  # characters that fit below a group
    parts = []
    for x, at in places.items():
        text = chart.x_text(x)
        short = text if len(text) <= room else text[: room - 1] + "…"
        parts.append(f"<g><title>{escape(text)}</title>{_x_label(LEFT + group * (at + 0.5), short)}</g>")
    for place, ((name, points), colour) in enumerate(zip(chart.series.items(), COLOURS, strict=False)):
        for x, y in points:
            left = LEFT + group * (places[x] + (1 - GROUP) / 2) + bar * place
            tall = place_y(0) - place_y(y)
            tells = escape(" ".join(part for part in (name, chart.x_text(x), number_text(y)) if part))
            parts.append(
                f'<rect x="{left:.1f}" y="{place_y(y):.1f}" width="{bar:.1f}" height="{tall:.1f}" fill="{colour}">'
                f"<title>{tells}</title></rect>"
            )
    return parts
