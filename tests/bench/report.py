"""From samples to the table: medians over the rounds, mqctl against Java, targets met or missed."""

from __future__ import annotations

import operator
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from .phases import SHORTFALLS, START, Samples, Sizes

JAVA: Final = "java"
OURS: Final = "mqctl"

COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on mqctl / java, or on mqctl's own value where that is already a ratio."""

    sign: str
    limit: float
    of_ratio: bool = True

    def met(self, ours: float | None, ratio: float | None) -> bool | None:
        """Whether it is met; None when there is nothing to judge."""
        value = ratio if self.of_ratio else ours
        return None if value is None else COMPARE[self.sign](value, self.limit)

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}{'x' if self.of_ratio else ''}"


@dataclass(frozen=True, slots=True)
class Metric:
    """A row: the key of its samples, what it is called, how its values are written, what is asked of it."""

    key: str
    label: str
    digits: int = 0
    target: Target | None = None


PERCENTILES: Final = {"p50": "p50", "p99": "p99", "p999": "p99.9", "max": "max"}

FASTER: Final = Target(">=", 1.3)
CHEAPER: Final = Target("<=", 0.6)
SMALLER: Final = Target("<=", 0.1)
SOONER: Final = Target("<=", 0.2)
NO_LATER: Final = Target("<=", 1.0)
NO_SLOWER: Final = Target(">=", 1.0)
HALF: Final = Target("<=", 0.5)
FLAT: Final = Target(">=", 0.9, of_ratio=False)


@dataclass(frozen=True, slots=True)
class Row:
    """A finished row; a value is None for a side that was not run."""

    key: str
    label: str
    digits: int
    java: float | None
    mqctl: float | None
    java_spread: float
    mqctl_spread: float
    ratio: float | None
    target: str
    ok: bool | None
    withheld: bool


def metrics(sizes: Sizes) -> list[Metric]:
    """All rows, in the order of the table."""
    return [
        Metric("start.s", "start to first ack, s", 3, SOONER),
        *_send_metrics("sync128", "sync 64 threads 128 B", FASTER),
        *_send_metrics("sync1024", "sync 64 threads 1 KiB", FASTER),
        *_send_metrics("async", "async 512 outstanding 128 B", None),
        *_send_metrics("batch", "batch 16 threads 32 x 128 B", None),
        Metric("memory.rss_mib", f"RSS after {sizes.memory_after:,} messages, MiB", 0, SMALLER),
        Metric("memory.private_mib", "  without mapped file pages, MiB", 0, SMALLER),
        Metric("drain.rate", f"drain {sizes.backlog:,} by push consumer, msg/s"),
        Metric("drain.cpu_us", "  broker CPU, us/msg", 1, CHEAPER),
        Metric("drain.first_message_s", "  consumer start to first message, s", 2),
        Metric("latency.p50_us", "end to end p50, us"),
        Metric("latency.p99_us", "  p99, us", 0, NO_LATER),
        Metric("latency.machine_us", "  p99 of a mere sleeper meanwhile, us"),
        Metric("latency.max_us", "  max, us"),
        Metric("latency.cpu_us", "  broker CPU, us/msg", 1),
        Metric("topics.one_rate", "sync send to one topic, msg/s"),
        Metric("topics.many_rate", f"  over {sizes.topics:,} topics x 4 queues, msg/s"),
        Metric("topics.kept", "  share of throughput kept", 3, FLAT),
        Metric(
            "delayed.rate",
            f"send {sizes.delayed:,} with a delay of 5 s, msg/s",
            0,
            NO_SLOWER,
        ),
        Metric("delayed.cpu_us", "  broker CPU until they are consumed, us/msg", 1, CHEAPER),
        Metric("delayed.done_s", "  first send to last delivery, s", 2, NO_LATER),
        Metric("transactions.rate", f"{sizes.transactions:,} transactions, 64 threads 128 B, per s", 0, NO_SLOWER),
        Metric("transactions.cpu_us", "  broker CPU until they are consumed, us/transaction", 1, CHEAPER),
        Metric("transactions.p50_us", "  p50, us"),
        Metric("transactions.p99_us", "  p99, us"),
        Metric("transactions.done_s", "  first send to last delivery, s", 2, NO_LATER),
        Metric("flushed.rate", "SYNC_FLUSH, sync 64 threads 128 B, msg/s", 0, NO_SLOWER),
        Metric("flushed.cpu_us", "  broker CPU, us/msg", 1),
        Metric("flushed.p50_us", "  p50, us"),
        Metric("flushed.p99_us", "  p99, us"),
        Metric("keys.p50_us", f"lookup by key, {sizes.indexed:,} messages filed, p50, us", 0, NO_LATER),
        Metric("keys.p99_us", "  p99, us"),
        Metric("recovery.s", f"start to first ack after kill -9, {sizes.recovered_mib:,} MiB stored, s", 3, HALF),
    ]


def _send_metrics(name: str, label: str, rate_target: Target | None) -> list[Metric]:
    return [
        Metric(f"{name}.rate", f"{label}, msg/s", 0, rate_target),
        Metric(f"{name}.cpu_us", "  broker CPU, us/msg", 1, CHEAPER),
        *(Metric(f"{name}.{key}_us", f"  {text}, us") for key, text in PERCENTILES.items()),
    ]


def rows(rounds: Mapping[str, Sequence[Samples]], sizes: Sizes) -> list[Row]:
    """Condense the rounds of each side into rows; metrics that were not measured are left out.

    When a broker left work undone, nothing measured under load gets a verdict: the comparison would not be one.
    """
    unequal = any(each.get(SHORTFALLS) for side in rounds.values() for each in side)
    found = [_row(metric, rounds, unequal and not metric.key.startswith(START)) for metric in metrics(sizes)]
    return [row for row in found if row is not None]


def _row(metric: Metric, rounds: Mapping[str, Sequence[Samples]], withheld: bool) -> Row | None:
    java, java_spread = _middle(metric.key, rounds.get(JAVA, ()))
    ours, ours_spread = _middle(metric.key, rounds.get(OURS, ()))
    if java is None and ours is None:
        return None
    ratio = ours / java if ours is not None and java else None
    target = metric.target
    return Row(
        key=metric.key,
        label=metric.label,
        digits=metric.digits,
        java=java,
        mqctl=ours,
        java_spread=java_spread,
        mqctl_spread=ours_spread,
        ratio=ratio,
        target=str(target) if target else "",
        ok=target.met(ours, ratio) if target and not withheld else None,
        withheld=withheld and target is not None,
    )


def _middle(key: str, samples: Sequence[Samples]) -> tuple[float | None, float]:
    """The median, and how far the rounds lie apart as a share of it."""
    values = [each[key] for each in samples if key in each]
    if not values:
        return None, 0.0
    median = statistics.median(values)
    return median, (max(values) - min(values)) / 2 / median if median else 0.0


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows as plain data."""
    return [asdict(row) for row in rows]


HEADINGS: Final = ("metric", "java", "mqctl", "ratio", "target", "")


def cells(row: Row) -> tuple[str, ...]:
    """The texts of a row."""
    verdict = "unequal" if row.withheld else {True: "ok", False: "miss", None: ""}[row.ok]
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}x"
    return (
        row.label,
        _value(row.java, row.digits, row.java_spread),
        _value(row.mqctl, row.digits, row.mqctl_spread),
        ratio,
        row.target,
        verdict,
    )


def _value(value: float | None, digits: int, spread: float) -> str:
    if value is None:
        return "-"
    return f"{value:,.{digits}f}" + (f" ±{spread:.0%}" if spread else "")


def show(rows: Sequence[Row]) -> None:
    """Print the table: drawn and coloured on a terminal, plain columns elsewhere."""
    if sys.stdout.isatty():
        _show_rich(rows)
    else:
        _show_plain(rows)


def _show_plain(rows: Sequence[Row]) -> None:
    table = [HEADINGS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    for label, *others in table:
        columns = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        print("  ".join([label.ljust(widths[0]), *columns]).rstrip())


def _show_rich(rows: Sequence[Row]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    # On a narrow terminal the label wraps; a number cut short would be a wrong number.
    table.add_column(HEADINGS[0])
    for heading in HEADINGS[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    styles = {True: "green", False: "red", None: None}
    for row in rows:
        table.add_row(*cells(row), style=styles[row.ok])
    Console().print(table)
