"""The .properties format, against what java.util.Properties does with the same text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqctl.errors import ConfigError
from mqctl.properties import decode_text, format_properties, load_properties, parse_properties, with_values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n  ! no\n\n \t\f\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3\r\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=one \\\n   two\\\r\n\tthree", {"a": "one twothree"}),
        ("a=1\\\n# part of it", {"a": "1# part of it"}),
        ("# a comment does not go on \\\na=1", {"a": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=back\\\\\nb=2", {"a": "back\\", "b": "2"}),
        ("a=end\\", {"a": "end"}),
        ("\\", {}),
        ("path=C:\\\\mq\\tx\\q", {"path": "C:\\mq\txq"}),
        ("\\u4e2d=\\uD83D\\uDE00", {"中": "😀"}),
        ("half=\\ud83d", {"half": "�"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a==b=c", {"a": "=b=c"}),
        ("a = : b", {"a": ": b"}),
        ("key", {"key": ""}),
        ("=value", {"": "value"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=kept  ", {"a": "kept  "}),
        ("namesrvAddr=127.0.0.1:9876;127.0.0.2:9876", {"namesrvAddr": "127.0.0.1:9876;127.0.0.2:9876"}),
    ],
)
def test_reading(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["\n\na=\\u12", "\n\na=\\uzzzz", "\n\n\\u=1"])
def test_broken_escape_names_source_and_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf, line 3"):
        parse_properties(text, "broker.conf")


def test_writing_escapes_only_what_readers_need() -> None:
    properties = {"namesrvAddr": "a:1;b:2", "p": "C:\\x", "s": "  two", "中 =": "é😀\n"}
    assert format_properties(properties) == (
        "namesrvAddr=a:1;b:2\np=C:\\\\x\ns=\\ \\ two\n\\u4e2d\\ \\==\\u00e9\\ud83d\\ude00\\n\n"
    )


@given(st.dictionaries(st.text(), st.text()))
def test_round_trip(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@given(st.text(alphabet=st.sampled_from("a=: \t\f\\u0#!\r\n")))
def test_any_text_parses_or_is_a_config_error(text: str) -> None:
    try:
        parsed = parse_properties(text)
    except ConfigError:
        return
    assert parse_properties(format_properties(parsed)) == parsed


def test_files_may_be_utf8_or_latin1(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes("\ufeff# 注释\nbrokerName=中\n".encode())
    assert load_properties(path) == {"brokerName": "中"}
    assert decode_text(b"brokerName=caf\xe9") == "brokerName=café"


def test_missing_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_properties(tmp_path / "absent.conf")


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        ("# ours\na = 1\n\n! b=0\nb:2\n", {"a": "3"}, "# ours\na=3\n\n! b=0\nb:2\n"),
        ("a=1\nb=2\na=3\n", {"a": "4"}, "b=2\na=4\n"),
        ("a=one \\\n  two\nb=2", {"a": "x"}, "a=x\nb=2\n"),
        ("", {"a": "1"}, "a=1\n"),
        ("a=1", {}, "a=1\n"),
        ("a=1\r\nb=2\r\n", {"c": "=", "b": " \\"}, "a=1\nb=\\ \\\\\nc==\n"),
    ],
)
def test_some_values_are_changed_and_the_rest_stays(text: str, changed: dict[str, str], expected: str) -> None:
    assert with_values(text, changed) == expected


@given(
    st.dictionaries(st.text(min_size=1), st.text()),
    st.dictionaries(st.text(min_size=1), st.text()),
)
def test_changed_values_are_read_again(before: dict[str, str], changed: dict[str, str]) -> None:
    old = parse_properties(format_properties(before))
    new = parse_properties(format_properties(changed))
    assert parse_properties(with_values(format_properties(old), new)) == {**old, **new}
