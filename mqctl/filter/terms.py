"""What an expression is made of, and which combinations make sense.

A term is what RocketMQ's Expression classes are: a literal, a property, a negated number, or a condition. The functions
below put terms together under the rules of Apache's ComparisonExpression, UnaryExpression and LogicExpression. Terms
are built from the inside out, already in the form that runs: a condition holds a function of the values of the
expression's properties, which returns True, False, or None for "unknown".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqctl.filter.java import Int, Long, Number, Value, compare, negative, to_double, to_int, to_long

# The value of each property that an expression names; None where the message has no such property.
Values = Mapping[str, str | None]
Test = Callable[[Values], bool | None]

# A condition runs as nested calls; without a limit a long row of NOTs would exhaust Python's stack.
MAX_DEPTH: Final = 100


class Misfit(Exception):
    """These terms cannot be combined; `position` is where in the text the offending one begins."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value | None
    position: int


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Negated:
    """A minus sign before something; only a number has a negative, all else becomes unknown. It is known like a
    literal, but Java does not check it like one."""

    value: Number | None
    position: int


@dataclass(frozen=True, slots=True)
class Condition:
    test: Test
    position: int
    names: frozenset[str] = frozenset()  # the properties it looks at
    size: int = 1  # how many conditions it is made of
    depth: int = 1


Term = Literal | Property | Negated | Condition


def condition(term: Term) -> Condition:
    """A term as a condition. A property is one too: never true, since its value is a text and no boolean."""
    match term:
        case Condition():
            return term
        case Property(name, position):
            return Condition(lambda values: None if values[name] is None else False, position, frozenset((name,)))
        case Literal(bool() | None as value, position):
            return Condition(lambda _: value, position)
        case _:
            raise Misfit("this is neither true nor false", term.position)


def _combined(test: Test, *parts: Term) -> Condition:
    conditions = [part for part in parts if isinstance(part, Condition)]
    depth = 1 + max((part.depth for part in conditions), default=0)
    position = min(part.position for part in parts)
    if depth > MAX_DEPTH:
        raise Misfit(f"conditions are nested more than {MAX_DEPTH} deep", position)
    names = {part.name for part in parts if isinstance(part, Property)}
    size = 1 + sum(part.size for part in conditions)
    return Condition(test, position, frozenset(names.union(*(part.names for part in conditions))), size, depth)


def _value(term: Term) -> Callable[[Values], Value | None]:
    match term:
        case Property(name):
            return lambda values: values[name]
        case Condition(test):
            return test
        case Literal(value) | Negated(value):
            return lambda _: value


# -- logic: three values, left to right, no further than needed -----------------------------------------


def any_of(terms: Sequence[Term]) -> Condition:
    tests = [condition(term).test for term in terms]

    def test(values: Values) -> bool | None:
        answer: bool | None = False
        for each in tests:
            found = each(values)
            if found:
                return True
            if found is None:
                answer = None
        return answer

    return _combined(test, *terms)


def all_of(terms: Sequence[Term]) -> Condition:
    tests = [condition(term).test for term in terms]

    def test(values: Values) -> bool | None:
        answer: bool | None = True
        for each in tests:
            found = each(values)
            if found is None:
                answer = None
            elif not found:
                return False
        return answer

    return _combined(test, *terms)


def negation(term: Term) -> Condition:
    inner = condition(term).test

    def test(values: Values) -> bool | None:
        found = inner(values)
        return None if found is None else not found

    return _combined(test, term)


def negated(term: Term) -> Negated:
    known = term.value if isinstance(term, Literal | Negated) else None
    return Negated(negative(known) if isinstance(known, Int | Long | float) else None, term.position)


# -- comparisons ------------------------------------------------------------------------------------------


def equal(left: Term, right: Term) -> Condition:
    for term in (left, right):
        if isinstance(term, Literal) and term.value is None:
            raise Misfit("nothing equals NULL; write IS NULL", term.position)
    if _is_boolean(left) and isinstance(right, Literal) and not _is_boolean(right):
        raise Misfit("a boolean cannot be compared with this", right.position)
    return _equal(left, right)


def not_equal(left: Term, right: Term) -> Condition:
    return negation(equal(left, right))


def is_null(term: Term) -> Condition:
    return _equal(term, Literal(None, term.position))


def is_not_null(term: Term) -> Condition:
    return negation(is_null(term))


def _equal(left: Term, right: Term) -> Condition:
    """Null equals null. Otherwise a missing left side makes it unknown, a missing right side false."""
    match left, right:
        case Property(name), Literal(str() as text):  # what most filters are made of, in the shortest way
            return _combined(lambda values: None if (found := values[name]) is None else found == text, left, right)
    left_value, right_value = _value(left), _value(right)

    def test(values: Values) -> bool | None:
        one, other = left_value(values), right_value(values)
        if one is None:
            return True if other is None else None
        return other is not None and compare(one, other) == 0

    return _combined(test, left, right)


def greater(left: Term, right: Term) -> Condition:
    return _ordered(left, right, operator.gt)


def greater_or_equal(left: Term, right: Term) -> Condition:
    return _ordered(left, right, operator.ge)


def less(left: Term, right: Term) -> Condition:
    return _ordered(left, right, operator.lt)


def less_or_equal(left: Term, right: Term) -> Condition:
    return _ordered(left, right, operator.le)


def _ordered(left: Term, right: Term, holds: Callable[[int, int], bool]) -> Condition:
    for term in (left, right):
        if isinstance(term, Condition) or (isinstance(term, Literal) and not _is_number(term.value)):
            raise Misfit("only numbers and properties can be compared by > >= < <= and BETWEEN", term.position)
    match left, right:
        case Property(name), Literal(Int() | Long() as number):  # likewise
            read = to_int if isinstance(number, Int) else to_long
            return _combined(
                lambda values: None if (found := values[name]) is None else holds(read(found), number), left, right
            )
    left_value, right_value = _value(left), _value(right)

    def test(values: Values) -> bool | None:
        one, other = left_value(values), right_value(values)
        if one is None or other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):  # two properties: texts have no order, numbers have
            one, other = to_double(one), to_double(other)
        return holds(compare(one, other), 0)

    return _combined(test, left, right)


def between(term: Term, low: Term, high: Term) -> Condition:
    found = all_of((greater_or_equal(term, low), less_or_equal(term, high)))
    match low, high:
        case Literal(Int() | Long() | float() as least), Literal(Int() | Long() | float() as most):
            if compare(most, least) < 0:
                raise Misfit("the second value of BETWEEN is less than the first", high.position)
    return found


def not_between(term: Term, low: Term, high: Term) -> Condition:
    return any_of((less(term, low), greater(term, high)))


def _is_boolean(term: Term) -> bool:
    return isinstance(term, Literal) and isinstance(term.value, bool)


def _is_number(value: Value | None) -> bool:
    return isinstance(value, Int | Long | float)


# -- texts ------------------------------------------------------------------------------------------------


def one_of(term: Term, texts: Sequence[str], *, wanted: bool) -> Condition:
    if not isinstance(term, Property):
        raise Misfit("only a property can be IN a list", term.position)
    listed, name = frozenset(texts), term.name

    def test(values: Values) -> bool | None:
        found = values[name]
        return None if found is None else (found in listed) is wanted

    return _combined(test, term)


def text_test(term: Term, text: str, holds: Callable[[str, str], bool], *, wanted: bool) -> Condition:
    """CONTAINS, STARTSWITH and ENDSWITH of RocketMQ 5. False, never unknown, for what is no text, and for an empty text
    to look for; also in their NOT forms."""
    value = _value(term)

    def test(values: Values) -> bool | None:
        found = value(values)
        return bool(text) and isinstance(found, str) and holds(found, text) is wanted

    return _combined(test, term)
