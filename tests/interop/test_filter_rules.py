"""Filter for filter, message for message: ours and Apache's broker must choose the same."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mqctl.errors import FilterError
from mqctl.filter.sql import compile_filter
from mqctl.store.properties import format_properties
from tests.aio import in_loop
from tests.interop.acting import Broker, make_topic
from tests.peers.apache import ApacheBroker
from tests.peers.cache import require
from tests.peers.driver import SOURCES
from tests.peers.jvm import QUICK_START, java
from tests.peers.ours import OurBroker, OurNamesrv
from tests.unit.server.broker.harness import Client

pytestmark = pytest.mark.interop
Unique = Callable[[str], str]

CHECK_CLIENT_CONFIG: Final = 46
PULL_NOT_FOUND, PULL_RETRY, PARSE_FAILED = 19, 20, 23

ORDERS: Final = ("=", "<>", ">", ">=", "<", "<=")

# What messages have as property a. Every one is a number, a boolean or a text to some Java parser and not to another.
VALUES: Final = [
    *("0", "1", "5", "-5", "+5", "007", "-0", "2147483647", "2147483648", "-2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "9007199254740993"),
    *("5.5", "5.", ".5", "1e3", "1E400", "4.9e-324", "-0.0", "0.0", "5d", "5F", "5L", "0x10", "0x1p3", "0x.8P1d"),
    *("NaN", "nan", "-NaN", "Infinity", "-Infinity", " 5", "5 ", "\t5.5\n", "1_000", "٥", "𝟓", "+", "-", "."),
    *("true", "TRUE", "tRuE", "false", "abc", "it's", "x y", "äöü", "a''b", "null", "TagA"),
]  # fmt: skip
# And as property b, in turn; None for none.
SECOND: Final = ["5", "abc", None, "5.50", "true", "-0.0"]

FILTERS: Final = [
    # numbers: what the literal is decides what the property must be
    *(f"a {op} {number}" for op in ORDERS for number in ("5", "-5", "5L", "2147483648", "5.5")),
    *(f"{number} {op} a" for op in ORDERS for number in ("5", "2147483648", "0.5e1", "-5")),
    *("a = 0", "a <> 0", "a = -0", "a = +5", "a = - - 5", "a = --5\n", "a = --5", "a = -2147483648", "a > -.5"),
    *("a = 9223372036854775807", "a > 9007199254740992", "a = 9007199254740993.0", "a < 1e308", "a > 4.9E-324"),
    *("a BETWEEN 0 AND 10", "a NOT BETWEEN 0 AND 10", "a BETWEEN 5 AND 5", "a NOT BETWEEN 10 AND 0"),
    *("a BETWEEN -10 AND 10.5", "a BETWEEN 1 AND -1", "5 BETWEEN a AND b", "a BETWEEN b AND 2147483648"),
    # two properties
    *(f"a {op} b" for op in ORDERS),
    *("a = missing", "missing = a", "missing = missing", "a <> missing", "missing <> a", "missing > a"),
    # texts
    *("a = 'abc'", "a <> 'abc'", "'abc' = a", "a = 'it''s'", "a = 'äöü'", "a = '5'", "'5' <> a", "a = 'a''''b'"),
    *("a IN ('abc')", "a IN ('5', 'abc', 'it''s')", "a NOT IN ('5', 'abc')", "missing IN ('x')"),
    *("missing NOT IN ('x')",),
    *("(a) IN ('abc')", "+a IN ('1','2','3','4','5','6')", "TAGS = 'TagB'", "TAGS IS NULL", "KEYS = 'k1'"),
    # booleans
    *("a = TRUE", "a = FALSE", "a <> true", "TRUE = a", "TRUE <> a", "FALSE <> missing", "TRUE", "FALSE"),
    *("NULL", "NOT TRUE"),
    *("TRUE = TRUE", "TRUE = FALSE", "TRUE <> FALSE", "1 = TRUE", "1 <> TRUE", "a", "NOT a", "missing"),
    *("NOT missing", "+a"),
    *("(a = 5) = TRUE", "(a = 5) = 1", "1 = (a = 5)", "(a = 5) = (b = 5)", "(a = 5) <> b", "a = b = a"),
    *("a = b <> TRUE",),
    # null
    *("a IS NULL", "a IS NOT NULL", "missing IS NULL", "missing IS NOT NULL", "b IS NULL AND a = 5", "NULL IS NULL"),
    *("5 IS NULL", "'x' IS NOT NULL", "a IS NULL IS NULL", "a IS NOT NULL IS NOT NULL"),
    *("(missing = 5) IS NULL", "-a IS NULL"),
    # signs before what is no number
    *("a = -b", "a > -b", "a = -'5'", "a <> -'5'", "a > -'x'", "-'x' > a", "-TRUE = a", "- NULL IS NULL"),
    *("-a = -b", "a > -(5)"),
    # logic; an error while looking at a message ends it, wherever it stands
    *("a > 3 OR b = 'abc'", "b = 'abc' OR a > 3", "a > 3 AND b = 'abc'", "b = 'abc' AND a > 3", "NOT (a > 3)"),
    *("NOT (a = 'abc')", "NOT a = 'abc'", "NOT a = TRUE", "NOT a IS NULL", "NOT NOT (a = 5)", "NOT (missing = 5)"),
    *("missing = 5 OR a = '5'", "missing = 5 AND a = '5'", "a = '5' OR missing = 5", "NOT (missing = 5 OR a = '5')"),
    *("a = '5' OR a = 'abc' AND b IS NULL", "(a = '5' OR a = 'abc') AND b IS NULL", "a = '5' or A = '5'"),
    *("TRUE AND a = '5'",),
    *("a OR TRUE", "NULL OR TRUE", "NULL AND FALSE", "NOT NULL", "a > 3 OR TRUE", "TRUE OR a > 3"),
    *("a BETWEEN 1 AND 9 AND b = 5",),
    # the look of the language
    *("a='5'", "a\t=\r\n'5'\f", "a = /* five */ '5'", "/**/a = /***/ '5' /* a * b / c */"),
    *("-- first\na = '5'", "a = '5' -- end\r"),
    *("((((a = '5'))))", "_x$1 IS NULL", "$ = '1'", "NOTE = '1'", "nottrue IS NULL", "a in ('5')"),
    *("A Is Not NULL", "a = 5.E0"),
    *("a = .5", "a = 5e0", "a = 5.0E+0", "a = 0l", "a = 5l", "a = ''", "a <> ''", "a IN ('')"),
    # what is wrong
    *("", " ", "a =", "= a", "a == 5", "a != 5", "a = NULL", "NULL = a", "a > 'x'", "'x' < a", "a > TRUE"),
    *("a > NULL", "a > (b = 5)"),
    *("1 < 2 < 3", "a BETWEEN 10 AND 1", "a BETWEEN 5.5 AND 5", "a BETWEEN 'a' AND 'b'", "a BETWEEN 1"),
    *("a BETWEEN NULL AND 5",),
    *("a IN ()", "a IN (5)", "a IN ('5'", "'a' IN ('a')", "5 IN ('5')", "-a IN ('5')", "TRUE = 1"),
    *("TRUE = 'x'", "5", "'x'", "-5", "-a"),
    *("NOT 5", "NOT 'x'", "a AND 5", "5 OR a", "a AND -b", "NOT a > 5", "a > NOT b", "(a = 5", "()"),
    *("a = 'x", "a = \"x\"", "a ; b"),
    *("a = 9223372036854775808", "a = -9223372036854775808", "a = 0.0", "a = 1e999", "a = 1e-999", "AND = 1"),
    *("a = AND", "not", "a.b = 5 #"),
    *("/* a = 5", "a IS", "a IS NOT", "a IS 5", "a NOT", "a NOT 5", "IN ('x')", "\u017f = 5", "ä = 5"),
    *("a = 5 \u00a0", "* = 5", "a = ?"),
]  # fmt: skip

# The operators that came with 5.x.
TEXT_FILTERS: Final = [
    f"{operand} {negation}{operator} {text}"
    for operator in ("CONTAINS", "STARTSWITH", "endswith")
    for negation in ("", "NOT ")
    for operand in ("a", "missing", "'abc'", "5", "(a = 'abc')", "-a", "a IS NULL OR b")
    for text in ("'a'", "'5'", "''", "'it''s'", "b")
]

# Apache's parser stops at the end of the first whole expression and ignores the rest, so that these become filters that
# nobody wrote: the first one matches nothing at all, the next one ignores b. Ours says where the text goes wrong.
LEFTOVERS: Final = [
    "a LIKE 'x%'",
    "a = '5' b = 'abc'",
    "a = 007",
    "a = '5')",
    "a = '5' -- end",
    "a-b = 5",
    "a = 5x",
    "a = 1.2.3",
]


class Choice(NamedTuple):
    is_accepted: bool
    chosen: list[bytes]


async def choose(client: Client, topic: str, expression: str) -> Choice:
    """Whether the broker takes the filter, and the bodies of all messages it then lets through."""
    subscription = {"topic": topic, "subString": expression, "expressionType": "SQL92", "subVersion": 1}
    body = json.dumps({"clientId": "c", "group": "g", "subscriptionData": subscription}).encode()
    checked = await client.ask(CHECK_CLIENT_CONFIG, body=body)
    if checked.code != 0:
        assert checked.code == PARSE_FAILED, checked.remark
        return Choice(False, [])
    chosen: list[bytes] = []
    queue_offset = 0
    while True:
        pulled = await client.pull(queue_offset, topic=topic, tags=expression, expressionType="SQL92")
        if pulled.code == PULL_NOT_FOUND:
            return Choice(True, chosen)
        assert pulled.code in (0, PULL_RETRY) and pulled.next_offset > queue_offset, pulled
        chosen += pulled.bodies
        queue_offset = pulled.next_offset


async def fill(client: Client, topic: str) -> None:
    for number, value in enumerate(VALUES):
        second = SECOND[number % len(SECOND)]
        properties = {"a": value, "TAGS": "TagB", "KEYS": f"k{number}", **({"b": second} if second else {})}
        await client.sent(value.encode(), topic=topic, properties=properties)
    await client.sent(b"no property", topic=topic)


def random_filter(rng: random.Random, depth: int = 3) -> str:
    """Mostly right ones."""
    if depth and rng.random() < 0.6:
        left, right = random_filter(rng, depth - 1), random_filter(rng, depth - 1)
        return rng.choice(
            [f"{left} AND {right}", f"{left} OR {right}", f"NOT ({left})", f"({left})", f"({left}) = ({right})"]
        )
    operand = lambda: rng.choice(["a", "b", "c", "5", "-5", "5.5", "'5'", "'abc'", "TRUE", "2147483648", "NULL"])  # noqa: E731
    comparison = f"{operand()} {rng.choice(['=', '<>', '>', '<=', '<', '>='])} {operand()}"
    name = rng.choice("abc")
    return rng.choice(
        [
            comparison,
            f"{name} = {operand()}",
            f"{name} IS {rng.choice(['', 'NOT'])} NULL",
            f"{name} {rng.choice(['', 'NOT'])} IN ('5', 'abc')",
            f"{name} {rng.choice(['', 'NOT'])} BETWEEN {operand()} AND {operand()}",
        ]
    )


@pytest.fixture(scope="module")
def filtering_broker(our_namesrv: OurNamesrv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    workdir, conf = tmp_path_factory.mktemp("filtering"), {"enablePropertyFilter": True}
    with OurBroker(workdir, our_namesrv.address, name="filtering", cluster="filtering", conf=conf) as server:
        yield server


async def filled(broker: Broker, topic: str) -> Client:
    make_topic(broker, topic, 1)
    client = Client(broker.address)
    await fill(client, topic)
    return client


async def compare(their_broker: Broker, our_broker: Broker, topic: str, filters: Iterable[str]) -> None:
    apache, ours = await filled(their_broker, topic), await filled(our_broker, topic)
    try:
        differences = []
        for expression in filters:
            theirs, own = await choose(apache, topic, expression), await choose(ours, topic, expression)
            if theirs != own:
                differences.append((expression, theirs, own))
        assert not differences, "\n".join(map(str, differences))
    finally:
        await apache.close()
        await ours.close()


@in_loop
async def test_every_filter_chooses_the_same(
    apache_broker: ApacheBroker, filtering_broker: OurBroker, unique: Unique
) -> None:
    rng = random.Random(5)
    filters = dict.fromkeys([*FILTERS, *(random_filter(rng) for _ in range(200))])
    await compare(apache_broker, filtering_broker, unique("rules"), filters)


def test_the_text_operators_of_5(tmp_path: Path) -> None:
    """Asked of Apache's classes alone: a 5.5.0 broker takes long to start."""
    messages = [{"a": value, "b": "5"} for value in VALUES] + [{}]
    command = require(java, "server-5.5.0", tmp_path, [QUICK_START], str(SOURCES / "java" / "Filters.java"))
    question = json.dumps({"filters": TEXT_FILTERS, "messages": messages})
    done = subprocess.run(command, input=question, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    texts = [format_properties(properties) for properties in messages]
    for expression, theirs in zip(TEXT_FILTERS, json.loads(done.stdout), strict=True):
        try:
            compiled = compile_filter(expression)
        except FilterError:
            assert theirs is None, expression
        else:
            assert [compiled.matches(text) for text in texts] == theirs, expression


@in_loop
async def test_what_follows_a_whole_expression_is_an_error(
    apache_broker: ApacheBroker, filtering_broker: OurBroker, unique: Unique
) -> None:
    topic = unique("leftovers")
    apache, ours = await filled(apache_broker, topic), await filled(filtering_broker, topic)
    try:
        for expression in LEFTOVERS:
            assert (await choose(apache, topic, expression)).is_accepted, expression
            assert not (await choose(ours, topic, expression)).is_accepted, expression
        # A pull that brings a wrong one along, without asking before: Apache's broker forgets the filter.
        assert (await apache.pull(topic=topic, tags="a >", expressionType="SQL92")).code == 0
        assert (await ours.pull(topic=topic, tags="a >", expressionType="SQL92")).code == PARSE_FAILED
    finally:
        await apache.close()
        await ours.close()
