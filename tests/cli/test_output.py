"""Rows in every format, on a terminal and not, and the small translators around them."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
import yaml

from mqctl.client.admin.topics import parse_perm, perm_text
from mqctl.env import Environment
from mqctl.errors import ConfigError, ConnectionFailed, MqError, NotFound, RequestTimeout, ResponseError, StoreError
from mqctl.exit import ExitCode, exit_code
from mqctl.figures import count_text, rate_text, seconds_text, share_text, size_text
from mqctl.output import Column, Format, Output
from mqctl.times import parse_time, time_text
from tests.cli.running import Stream

COLUMNS = [Column("topic"), Column("queueId", "QUEUE"), Column("keys"), Column("at", show=lambda value: f"<{value}>")]
ROWS = [
    {"topic": "a", "queueId": 1, "keys": ["x", "y"], "at": 5},
    {"topic": "b\x1b[2J", "queueId": 10, "keys": [], "at": None},
]


def shown(format: Format | None, *, terminal: bool = False, variables: dict[str, str] | None = None) -> str:
    stream = Stream(terminal=terminal)
    Output(Environment(stdout=stream, variables=variables or {}), format).rows(COLUMNS, ROWS)
    return stream.content()


def test_plain_table() -> None:
    assert shown(None) == (
        "TOPIC     QUEUE  KEYS  AT\n"
        "a             1  x y   <5>\n"
        "b\\x1b[2J     10  -     -\n"
    )  # fmt: skip


def test_json() -> None:
    assert shown(Format.JSON).startswith('[\n  {\n    "topic": "a",\n    "queueId": 1,\n')


def test_yaml() -> None:
    assert shown(Format.YAML).startswith("- topic: a\n  queueId: 1\n  keys:\n  - x\n  - y\n  at: 5\n")


def test_csv() -> None:
    assert shown(Format.CSV) == "topic,queueId,keys,at\na,1,x y,5\nb\x1b[2J,10,,\n"


def test_figures_are_for_people_only() -> None:
    columns = [Column("id"), Column("lag", show=count_text), Column("size", show=size_text)]
    rows = [{"id": 10911, "lag": 1234567, "size": 3 << 20}, {"id": 7, "lag": None, "size": 0}]

    def printed(format: Format) -> str:
        stream = Stream()
        Output(Environment(stdout=stream, variables={}), format).rows(columns, rows)
        return stream.content()

    assert printed(Format.TABLE) == (
        "   ID        LAG     SIZE\n"
        "10911  1,234,567  3.0 MiB\n"
        "    7          -      0 B\n"
    )  # fmt: skip
    assert printed(Format.CSV) == "id,lag,size\n10911,1234567,3145728\n7,,0\n"
    assert yaml.safe_load(printed(Format.YAML)) == json.loads(printed(Format.JSON)) == rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (count_text(999), "999"),
        (count_text(-1234567), "-1,234,567"),
        (rate_text(0), "0"),
        (rate_text(0.04), "0.04"),
        (rate_text(12.34), "12.3"),
        (rate_text(98765.4), "98,765"),
        (share_text(0.123), "12%"),
        (size_text(1023), "1023 B"),
        (size_text(1536), "1.5 KiB"),
        (size_text(-(5 << 30)), "-5.0 GiB"),
        (size_text(9 << 50), "9,216.0 TiB"),
        (seconds_text(0), "-"),
        (seconds_text(0.25), "250 ms"),
        (seconds_text(147.9), "2 m 27 s"),
    ],
)
def test_figures(text: str, expected: str) -> None:
    assert text == expected


def test_a_terminal_gets_bold_headings_and_no_color_gets_none() -> None:
    assert "\x1b[1m" in shown(None, terminal=True)
    plain = shown(None, terminal=True, variables={"NO_COLOR": "1"})
    assert "\x1b" not in plain
    assert plain.split() == ["TOPIC", "QUEUE", "KEYS", "AT", "a", "1", "x", "y", "<5>", "b\\x1b[2J", "10", "-", "-"]


def test_markup_in_data_is_data() -> None:
    stream = Stream(terminal=True)
    Output(Environment(stdout=stream, variables={}), None).rows([Column("x")], [{"x": "[red]not red[/red]"}])
    assert "[red]not red[/red]" in stream.content()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ResponseError(1, "no", "a:1"), ExitCode.REFUSED),
        (ResponseError(3, None, "a:1"), ExitCode.TOO_OLD),
        (ResponseError(16, None, "a:1"), ExitCode.NO_PERMISSION),
        (ResponseError(17, None, "a:1"), ExitCode.NOT_FOUND),
        (NotFound("x"), ExitCode.NOT_FOUND),
        (ConnectionFailed("x"), ExitCode.UNREACHABLE),
        (RequestTimeout("x"), ExitCode.UNREACHABLE),
        (ConfigError("x"), ExitCode.USAGE),
        (StoreError("x"), ExitCode.REFUSED),
        (MqError("x"), ExitCode.REFUSED),
    ],
)
def test_exit_codes(error: MqError, code: ExitCode) -> None:
    assert exit_code(error) is code


NOON = datetime(2024, 5, 31, 12).timestamp() * 1000


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1717156800000", 1717156800000),
        ("0", 0),
        ("-10m", 1_000_000_000_000 - 600_000),
        ("-1d", 1_000_000_000_000 - 86_400_000),
        ("2024-05-31T12:00:00", NOON),
        ("2024-05-31 12:00", NOON),
        ("2024-05-31T12:00:00+00:00", 1717156800000),
        ("2024-05-31#12:00:00:250", NOON + 250),
    ],
)
def test_times(text: str, timestamp_ms: float) -> None:
    assert parse_time(text, 1_000_000_000.0) == timestamp_ms


@pytest.mark.parametrize("text", ["", "now-ish", "1717156800", "10", "00", "-10x", "-99999999999999d", "2024-13-01"])
def test_no_times(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text, 0.0)


def test_time_text() -> None:
    assert time_text(int(NOON) + 7) == "2024-05-31 12:00:00.007"
    assert time_text(0) == "-"


@pytest.mark.parametrize(("text", "perm"), [("rw", 6), ("wr", 6), ("r", 4), ("w", 2), ("rwx", 7), ("6", 6), ("0", 0)])
def test_perms(text: str, perm: int) -> None:
    assert parse_perm(text) == perm


def test_perm_text() -> None:
    assert [perm_text(perm) for perm in (0, 2, 4, 6, 7)] == ["-", "w", "r", "rw", "rwx"]


@pytest.mark.parametrize("text", ["", "8", "rr", "a", "-1"])
def test_no_perms(text: str) -> None:
    with pytest.raises(ValueError, match="is not a permission"):
        parse_perm(text)
