"""SQL92 filters, compiled: the way in to this package."""

from __future__ import annotations

import functools
from typing import Final, cast

from mqctl.errors import FilterError
from mqctl.filter.java import NotComparable
from mqctl.filter.terms import Condition, Misfit
from mqctl.store.properties import get_property

SQL92: Final = "SQL92"

# Room for a list of thousand ids. A longer one keeps the broker from all other work while it is parsed: in the worst
# case, nothing but parentheses, this takes a third of a second.
MAX_LENGTH: Final = 32 * 1024
# As many as Apache's broker keeps.
CACHED_FILTERS: Final = 100
# How much of the text an error shows.
_EXCERPT: Final = 20


class Filter:
    """A compiled expression. `size` is the number of conditions in it, which says what asking it may cost."""

    def __init__(self, expression: str, condition: Condition) -> None:
        self.expression = expression
        self.size = condition.size
        self._test = condition.test
        self._names = tuple(condition.names)

    def matches(self, properties: str) -> bool:
        """Whether a message with this property text (`store.properties`) is wanted. Unknown is not."""
        try:
            return self._test({name: get_property(properties, name) for name in self._names}) is True
        except NotComparable:
            return False


def compile_filter(expression: str) -> Filter:
    """Raises FilterError, which says what is wrong and where."""
    found = _compile(expression)
    if isinstance(found, str):
        raise FilterError(found)
    return found


@functools.lru_cache(CACHED_FILTERS)
def _compile(expression: str) -> Filter | str:
    """The filter, or why there is none: consumers with a wrong filter come back with it every few seconds."""
    if len(expression) > MAX_LENGTH:
        return f"the filter has {len(expression)} characters; {MAX_LENGTH} are allowed"
    # lark takes a moment to import, and most brokers and commands never see a filter.
    from lark import UnexpectedCharacters, UnexpectedToken

    from mqctl.filter.grammar import PARSER

    try:
        # The parser hands out what its transformer made, which lark's types do not know.
        return Filter(expression, cast(Condition, PARSER.parse(expression)))
    except Misfit as error:
        return _complaint(expression, error.position, str(error))
    except UnexpectedToken as error:
        if error.token.type == "$END":
            return "the filter is wrong at its end: something is missing"
        return _complaint(expression, cast(int, error.pos_in_stream), "this cannot stand here")
    except UnexpectedCharacters as error:
        reason = "this quote is never closed" if error.char == "'" else "this is not part of the language"
        return _complaint(expression, cast(int, error.pos_in_stream), reason)


def _complaint(expression: str, position: int, reason: str) -> str:
    return f"the filter is wrong at character {position + 1}, {expression[position : position + _EXCERPT]!r}: {reason}"
