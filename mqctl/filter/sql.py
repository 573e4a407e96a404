"""SQL92 filters, compiled: the way in to this package."""

from __future__ import annotations

import functools
from typing import Final

from mqctl.errors import FilterError
from mqctl.filter.java import NotComparable
from mqctl.filter.terms import Condition, Misfit
from mqctl.store.properties import get_property

SQL92: Final = "SQL92"

# Longer than anyone writes by hand, short enough that nobody keeps a broker busy with parsing one.
MAX_LENGTH: Final = 64 * 1024
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


@functools.lru_cache(CACHED_FILTERS)
def compile_filter(expression: str) -> Filter:
    """Raises FilterError, which says what is wrong and where."""
    if len(expression) > MAX_LENGTH:
        raise FilterError(f"the filter has {len(expression)} characters; {MAX_LENGTH} are allowed")
    # lark takes a moment to import, and most brokers and commands never see a filter.
    from lark import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

    from mqctl.filter.grammar import PARSER

    try:
        return Filter(expression, PARSER.parse(expression))
    except Misfit as error:
        raise _error(expression, error.position, str(error)) from None
    except UnexpectedToken as error:
        raise _error(expression, error.pos_in_stream, "this cannot follow what comes before it") from None
    except UnexpectedInput as error:
        raise _error(expression, error.pos_in_stream, "this is not part of the language") from None


def _error(expression: str, position: int, reason: str) -> FilterError:
    rest = expression[position : position + _EXCERPT]
    place = f"at character {position + 1}, {rest!r}"
    if not expression[position:].strip():
        place, reason = "at its end", "something is missing"
    return FilterError(f"the filter is wrong {place}: {reason}")
