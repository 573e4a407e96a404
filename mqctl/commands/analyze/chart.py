"""What a picture of an answer shows, before it is drawn: as a line of characters, as SVG or as PNG."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from mqctl.commands.analyze.answering import Answer
from mqctl.output import cell_text
from mqctl.times import time_text

# More lines than this in one picture tell nobody anything; the largest are kept.
MAX_SERIES: Final = 10
MAX_BARS: Final = 40
# How much of the room for one x its bars take; the rest sets it apart from the next.
GROUP: Final = 0.8

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH: Final = 50


@dataclass(frozen=True, slots=True)
class Chart:
    """`series` are named lists of (x, y). An x that `is_time` is milliseconds since 1970; otherwise it is a number or,
    where it is not `numeric`, a name."""

    title: str
    kind: str
    x_name: str
    y_name: str
    is_time: bool
    numeric: bool
    series: dict[str, list[tuple[Any, float]]]
    left_out: int = 0

    @property
    def xs(self) -> list[Any]:
        """Of all series, each once: numbers in their order, names in that of the series."""
        found = dict.fromkeys(x for points in self.series.values() for x, _ in points)
        return sorted(found) if self.numeric else list(found)

    @property
    def is_bars(self) -> bool:
        """Names have no distance from each other that a line could be drawn over."""
        return self.kind != "lines" or not self.numeric

    def x_text(self, x: Any) -> str:
        return time_text(int(x))[:16] if self.is_time else number_text(x) if self.numeric else str(x)


def chart_of(answer: Answer) -> Chart | None:
    """None where the answer has nothing to look at."""
    plot = answer.plot
    if plot is None or not answer.rows:
        return None
    x_name, y_name, series_name = plot["x"], plot["y"], plot["series"]
    found: dict[str, dict[Any, float]] = {}
    for row in answer.rows:
        x, y = row[x_name], row[y_name]
        if x is not None and y is not None:
            points = found.setdefault("" if series_name is None else cell_text(row[series_name]), {})
            points[x] = points.get(x, 0.0) + float(y)
    largest = sorted(found, key=lambda name: -sum(found[name].values()))[:MAX_SERIES]
    kind = dict(answer.columns)[x_name]
    numeric = all(isinstance(x, (int, float)) for points in found.values() for x in points)
    return Chart(
        title=plot["title"] or answer.title,
        kind=plot["kind"],
        x_name=x_name,
        y_name=y_name,
        is_time=kind == "timestamp",
        numeric=numeric,
        series={name: _points(found[name], sort=numeric) for name in largest},
        left_out=len(found) - len(largest),
    )


def _points(points: dict[Any, float], sort: bool) -> list[tuple[Any, float]]:
    """Names stay in the order of the rows, which is the job's: the worst first."""
    return sorted(points.items()) if sort else list(points.items())[:MAX_BARS]


def number_text(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"


def sparklines(chart: Chart) -> list[str]:
    """A line per series: its name, its course, and its highest value."""
    width = max(map(len, chart.series), default=0)
    lines = [f"{chart.y_name} by {chart.x_name}"]
    for name, points in chart.series.items():
        values = _squeezed([y for _, y in points])
        highest = max(values)
        course = "".join(_BLOCKS[_level(value, highest)] for value in values)
        lines.append(f"  {name:<{width}}  {course}  max {number_text(highest)}")
    return lines


def _level(value: float, highest: float) -> int:
    return 0 if highest <= 0 or value <= 0 else min(int(value / highest * len(_BLOCKS)), len(_BLOCKS) - 1)


def _squeezed(values: list[float]) -> list[float]:
    """So many that they fit: of neighbours the highest, since it is peaks that one looks for."""
    if len(values) <= _SPARK_WIDTH:
        return values
    edges = [len(values) * place // _SPARK_WIDTH for place in range(_SPARK_WIDTH + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]
