"""SQL92 filters: what matches, what does not, what is wrong and where, and that no text does harm.

That Apache's broker thinks the same of several hundred filters is shown in tests/interop/test_filter_rules.py.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqctl.errors import FilterError
from mqctl.filter.sql import MAX_LENGTH, compile_filter
from mqctl.filter.terms import MAX_DEPTH
from mqctl.store.properties import format_properties

ORDER = format_properties(
    {"region": "eu", "amount": "120", "price": "9.5", "big": "3000000000", "vip": "True", "name": "it's", "word": "abc"}
)


def matches(expression: str, properties: str = ORDER) -> bool:
    return compile_filter(expression).matches(properties)


@pytest.mark.parametrize(
    "expression",
    [
        "region = 'eu'",
        "amount > 100 AND region = 'eu'",
        "amount BETWEEN 100 AND 120",
        "amount NOT BETWEEN 1 AND 119",
        "region IN ('us', 'eu')",
        "region NOT IN ('us')",
        "missing IS NULL AND region IS NOT NULL",
        "NOT (amount < 100)",
        "price < 9.75 AND price >= 9.5",
        "big > 2999999999",
        "amount > price",
        "vip = TRUE",
        "name = 'it''s'",
        "amount = 120L",
        "amount = --120",
        "amount > -5 /* always */",
        "-- a comment\n region='eu'",
        "word CONTAINS 'b' AND word STARTSWITH 'ab' AND word ENDSWITH 'bc'",
        "word NOT CONTAINS 'x' AND word NOT STARTSWITH 'b' AND word NOT ENDSWITH 'a'",
        "contains IS NULL AND startswith IS NULL",
        "missing = missing",
        "'x' <> missing",
    ],
)
def test_matches(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "region = 'EU'",
        "Region = 'eu'",
        "missing <> 'x'",
        "NOT (missing = 'x')",
        "price > 5",  # 9.5 is no int
        "big > 5",  # nor is this
        "region > 5 OR region = 'eu'",  # an error ends it, whatever follows
        "NOT region = 'us'",  # NOT takes the property alone
        "region",
        "TRUE = vip",
        "missing CONTAINS 'x'",
        "missing NOT CONTAINS 'x'",
        "word CONTAINS ''",
        "NULL",
    ],
)
def test_does_not_match(expression: str) -> None:
    assert not matches(expression)


def test_unknown_is_neither_true_nor_false() -> None:
    unknown = "missing = 1"
    assert matches(f"({unknown}) IS NULL")
    assert matches(f"({unknown} AND TRUE) IS NULL")
    assert matches(f"({unknown} OR FALSE) IS NULL")
    assert matches(f"(NOT ({unknown})) IS NULL")
    assert matches(f"({unknown} OR TRUE) = TRUE")
    assert matches(f"({unknown} AND FALSE) = FALSE")


def test_an_error_ends_it_only_when_it_is_reached() -> None:
    assert matches("region = 'eu' OR region > 5")
    assert not matches("region > 5 OR region = 'eu'")
    assert not matches("region = 'us' AND region > 5")


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "at its end"),
        ("region =", "at its end"),
        ("(a = 1 OR b", "at its end"),
        ("a LIKE 'x%'", "at character 3, \"LIKE 'x%'\": this cannot stand here"),
        ("a = 5 b = 6", "at character 7, 'b = 6'"),
        ("a = 007", "at character 6, '07'"),
        ("a != 1", "at character 3, '!= 1': this is not part of the language"),
        ("a = 'x", 'at character 5, "\'x": this quote is never closed'),
        ("a = NULL", "at character 5, 'NULL': nothing equals NULL; write IS NULL"),
        ("a = 1 AND b > 'x'", "at character 15, \"'x'\": only numbers"),
        ("a BETWEEN 10 AND 1", "at character 18, '1': the second value of BETWEEN is less"),
        ("'x' IN ('x')", "at character 1"),
        ("a = 1 OR 5", "at character 10, '5': this is neither true nor false"),
        ("TRUE = 5", "at character 8"),
        ("a = 9223372036854775808", "greater than 9223372036854775807"),
        ("a = 0.0", "for zero write 0"),
        ("a = 1e999", "1e999 is not between"),
        ("in = 5", "at character 1"),
    ],
)
def test_errors_point_at_the_place(expression: str, complaint: str) -> None:
    for _ in range(2):  # the second time from the cache
        with pytest.raises(FilterError) as caught:
            compile_filter(expression)
        assert complaint in str(caught.value)


def test_a_text_cannot_nest_too_deep() -> None:
    assert matches("NOT " * (MAX_DEPTH - 2) + "(region = 'eu')")
    with pytest.raises(FilterError, match=f"nested more than {MAX_DEPTH} deep"):
        compile_filter("NOT " * MAX_DEPTH + "(region = 'eu')")
    with pytest.raises(FilterError, match=f"nested more than {MAX_DEPTH} deep"):
        compile_filter("region" + " IS NULL" * (MAX_DEPTH + 1))
    # Neither parentheses nor a long row of alternatives nest.
    assert matches("(" * 1000 + "region = 'eu'" + ")" * 1000)
    assert matches("region = 'us' OR " * 1000 + "region = 'eu'")
    assert compile_filter("region = 'us' OR " * 1000 + "region = 'eu'").size == 1002


def test_a_text_cannot_be_too_long() -> None:
    with pytest.raises(FilterError, match=f"{MAX_LENGTH} are allowed"):
        compile_filter("a = '" + "x" * MAX_LENGTH + "'")


def test_the_parser_is_loaded_with_the_first_filter() -> None:
    code = "import sys, mqctl.server.broker.app; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


# -- any text ---------------------------------------------------------------------------------------------

PIECES = (
    "a region amount missing 1 -5 5.5 0 007 1e5 99999999999 'x' 'it''s' '' ' TRUE FALSE NULL NOT AND OR BETWEEN IN IS "
    "CONTAINS STARTSWITH ENDSWITH = <> > >= < <= ( ) , + - -- /* */ /**/ \n ! é"
)
WORDS = st.sampled_from(PIECES.split(" "))
VALUES = st.one_of(
    st.text(), st.integers().map(str), st.floats().map(str), st.sampled_from(["true", "NaN", "0x1p3", "+"])
)


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(st.text(), st.lists(WORDS, max_size=30).map(" ".join), st.lists(WORDS, max_size=30).map("".join)),
    st.lists(VALUES, min_size=3, max_size=3),
)
def test_any_text_is_a_filter_or_an_error(expression: str, values: list[str]) -> None:
    texts = [value.replace("\x01", "").replace("\x02", "") for value in values]
    properties = format_properties(dict(zip(("a", "region", "amount"), texts, strict=True)))
    try:
        found = compile_filter(expression)
    except FilterError as error:
        assert str(error).startswith("the filter")
    else:
        assert found.matches(properties) in (True, False)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["(", "NOT ", "-", "+", "NOT (", "a = (", "a = ", "a IS NULL AND (", "/*", "'", "a BETWEEN "]),
    st.data(),
)
def test_any_repetition_is_a_filter_or_an_error(piece: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4000 // len(piece)))
    try:
        compile_filter(piece * count + "a").matches(ORDER)
    except FilterError as error:
        assert str(error).startswith("the filter")
