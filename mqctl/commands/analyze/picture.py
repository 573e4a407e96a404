"""`--plot FILE`: an HTML page of its own with the picture and the rows, or a PNG where matplotlib is installed."""

from __future__ import annotations

from datetime import datetime
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from mqctl.commands.analyze.answering import Answer
from mqctl.commands.analyze.chart import GROUP, Chart, chart_of
from mqctl.errors import ConfigError
from mqctl.output import Column

MAX_ROWS: Final = 1000
MAX_LABELS: Final = 20  # below a PNG: where there are more, only some are told

PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 2em auto; max-width: 1000px; }}
table {{ border-collapse: collapse; font-size: 13px; }}
th, td {{ padding: 2px 10px; text-align: left; border-bottom: 1px solid #ddd; }}
.key span {{ display: inline-block; width: 1em; height: 1em; vertical-align: middle; }}
</style></head><body>
<h1>{title}</h1>
{svg}
<p class="key">{key}</p>
<table><thead><tr>{heads}</tr></thead><tbody>
{rows}
</tbody></table>
<p>{foot}</p>
</body></html>
"""


def check_plot(path: Path) -> None:
    """Raises ConfigError for what would fail after all the work was done."""
    if path.suffix not in (".html", ".png"):
        raise ConfigError(f"--plot {path}: a picture is FILE.html or FILE.png")
    if path.suffix == ".png" and find_spec("matplotlib") is None:
        raise ConfigError(
            "PNG needs matplotlib", hint="pip install matplotlib, or write --plot FILE.html, which needs nothing"
        )
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {path.absolute().parent}")


def write_plot(path: Path, answer: Answer, columns: list[Column]) -> bool:
    """The whole file or nothing; False if there is nothing to show."""
    chart = chart_of(answer)
    if chart is None:
        return False
    content = _png(chart) if path.suffix == ".png" else page(chart, answer, columns).encode()
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise ConfigError(f"--plot {path}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    return True


def page(chart: Chart, answer: Answer, columns: list[Column]) -> str:
    from mqctl.commands.analyze.svg import COLOURS, svg_of

    named = [name for name in chart.series if name]
    key = [
        f'<span style="background:{colour}"></span> {escape(name)}'
        for name, colour in zip(named, COLOURS, strict=False)
    ]
    if chart.left_out:
        key.append(f"and {chart.left_out} smaller ones")
    shown = answer.rows[:MAX_ROWS]
    cells = ("".join(f"<td>{escape(column.text(row))}</td>" for column in columns) for row in shown)
    foot = f"{len(shown)} of {len(answer.rows)} rows, made {datetime.now().isoformat(' ', 'seconds')} by mqctl analyze"
    return PAGE.format(
        title=escape(chart.title),
        svg=svg_of(chart),
        key=" &nbsp; ".join(key),
        heads="".join(f"<th>{escape(column.title)}</th>" for column in columns),
        rows="\n".join(f"<tr>{row}</tr>" for row in cells),
        foot=escape(foot),
    )


def _png(chart: Chart) -> bytes:
    import io

    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), dpi=100)
    axes = figure.add_subplot()
    if chart.is_bars:
        draw_bars(axes, chart)
    else:
        draw_lines(axes, chart)
    axes.set(title=chart.title, xlabel=chart.x_name, ylabel=chart.y_name, ylim=(0, None))
    if any(chart.series):
        axes.legend()
    figure.autofmt_xdate()
    image = io.BytesIO()
    figure.savefig(image, format="png", bbox_inches="tight")
    return image.getvalue()


def draw_lines(axes: Any, chart: Chart) -> None:
    for name, points in chart.series.items():
        places = [datetime.fromtimestamp(x / 1000) if chart.is_time else x for x, _ in points]
        axes.plot(places, [y for _, y in points], label=name or None)


def draw_bars(axes: Any, chart: Chart) -> None:
    """As in the page: a group for each x, however far apart those are, with a bar for each series."""
    width = GROUP / max(len(chart.series), 1)
    places = {x: at - GROUP / 2 + width / 2 for at, x in enumerate(chart.xs)}
    for number, (name, points) in enumerate(chart.series.items()):
        axes.bar(
            [places[x] + width * number for x, _ in points], [y for _, y in points], width=width, label=name or None
        )
    labels = [(at, chart.x_text(x)) for at, x in enumerate(chart.xs)]
    axes.set_xticks(*zip(*labels[:: len(labels) // MAX_LABELS + 1], strict=True))
