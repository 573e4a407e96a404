"""Questions in SQL: each table of a store is a view of the same name.

A scan decodes what it is asked for and nothing else, but Spark does not tell a Python source which columns a query
needs. So the view of messages is made anew for each statement, of the columns whose names occur in it. `*` stands for
all of them but the body, which has to be named.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mqctl.errors import ConfigError
from mqctl.store.scan.schema import MESSAGES, TABLES
from spark.result import Ask, Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from spark.stores import Stores

BODY: Final = "body"
# What a query that names no column gets: count(*) needs some.
CHEAPEST: Final = "phys_offset"

# Texts and comments, in which neither a name nor a semicolon means anything; a name in backquotes is a name.
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_COUNT: Final = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_NAME: Final = re.compile(r"\w+")
# What means columns without naming them. A `*` does where no operand can be before it; else it multiplies. DESC is a
# statement only at its beginning; elsewhere it is an order.
_UNNAMED: Final = re.compile(
    r"(?:^|[(,.]|\b(?:select|distinct|all))\s*\*|^\s*(?:desc(?:ribe)?|from)\b|\bnatural\b|\btable\b|\|>", re.IGNORECASE
)


def run(stores: Stores, ask: Ask) -> Result:
    """The rows of the last statement; the ones before it may make views for it."""
    *before, last = statements(ask.query) or [""]
    if not last:
        raise ConfigError(
            "there is no query", hint='for instance "SELECT topic, count(*) FROM messages GROUP BY topic"'
        )
    # A view that a statement makes keeps the messages it was made of; else it would find those of a later statement.
    stores.spark.conf.set("spark.sql.legacy.storeAnalyzedPlanForView", "true")
    for statement in before:
        _answer(stores, statement)
    return Result(last, _answer(stores, last))


def statements(text: str) -> list[str]:
    """Cut at the semicolons that end one."""
    found, begin = [], 0
    for end in [*_ends(text), len(text)]:
        found.append(text[begin:end].strip())
        begin = end + 1
    return [each for each in found if _QUOTED.sub(_blank_comment, each).strip()]


def _ends(text: str) -> Iterator[int]:
    """Where semicolons are that mean something."""
    plain = _QUOTED.sub(lambda quoted: " " * len(quoted[0]), text)
    return (each.start() for each in re.finditer(";", plain))


def _blank_comment(quoted: re.Match[str]) -> str:
    return " " if quoted[0].startswith(("--", "/*")) else quoted[0]


def message_columns(statement: str) -> list[str]:
    """Those that a statement may need, in the table's order."""
    plain = _COUNT.sub(" ", _QUOTED.sub(" ", statement))
    named = {name.lower() for name in _NAME.findall(plain)}
    if _UNNAMED.search(plain):
        return [name for name in MESSAGES.names if name != BODY or name in named]
    return [name for name in MESSAGES.names if name in named] or [CHEAPEST]


def _answer(stores: Stores, statement: str) -> DataFrame:
    named = {name.lower() for name in _NAME.findall(statement)}
    for name in TABLES:
        if name in named or "show" in named:
            _table(stores, name, statement).createOrReplaceTempView(name)
    return stores.spark.sql(statement)


def _table(stores: Stores, name: str, statement: str) -> DataFrame:
    if name != "messages":
        table: DataFrame = getattr(stores, name)()
        return table
    columns = message_columns(statement)
    return stores.messages(*columns, body="full" if BODY in columns else "none")
