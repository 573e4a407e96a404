"""The language of SQL92 filters: Apache's SelectorParser.jj, that of 5.x, as a grammar for lark.

Only this module needs lark, and importing it builds the parse tables; so it is imported with the first filter.
An LALR parser does not recurse: however deep a text nests, parsing it takes no stack.

A word that is not reserved names a property. CONTAINS, STARTSWITH and ENDSWITH are operators where one can stand and
names elsewhere, so that what 4.9 accepted goes on to work.
"""

from __future__ import annotations

import re
from typing import Final, cast

from lark import Lark, Token, Transformer, v_args

from mqctl.filter import terms
from mqctl.filter.java import INT_MAX, LONG_MAX, Int, Long
from mqctl.filter.terms import Condition, Literal, Misfit, Property, Term

_GRAMMAR: Final = r"""
start: disjunction

?disjunction: conjunction
    | conjunction (_OR conjunction)+ -> any_of
?conjunction: equality
    | equality (_AND equality)+ -> all_of

?equality: comparison
    | equality "=" comparison -> equal
    | equality "<>" comparison -> not_equal
    | equality _IS NULL -> is_null
    | equality _IS _NOT NULL -> is_not_null

?comparison: unary
    | comparison ">" unary -> greater
    | comparison ">=" unary -> greater_or_equal
    | comparison "<" unary -> less
    | comparison "<=" unary -> less_or_equal
    | comparison _BETWEEN unary _AND unary -> between
    | comparison _NOT _BETWEEN unary _AND unary -> not_between
    | comparison _IN _list -> is_in
    | comparison _NOT _IN _list -> is_not_in
    | comparison _CONTAINS STRING -> contains
    | comparison _NOT _CONTAINS STRING -> not_contains
    | comparison _STARTSWITH STRING -> starts_with
    | comparison _NOT _STARTSWITH STRING -> not_starts_with
    | comparison _ENDSWITH STRING -> ends_with
    | comparison _NOT _ENDSWITH STRING -> not_ends_with
_list: "(" STRING ("," STRING)* ")"

?unary: primary
    | "+" unary
    | "-" unary -> negated
    | _NOT unary -> negation

?primary: "(" disjunction ")"
    | STRING -> text
    | DECIMAL -> decimal
    | FLOATING -> floating
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | NAME -> property

_NOT.1: /NOT(?![\w$])/i
_AND.1: /AND(?![\w$])/i
_OR.1: /OR(?![\w$])/i
_BETWEEN.1: /BETWEEN(?![\w$])/i
_IN.1: /IN(?![\w$])/i
_IS.1: /IS(?![\w$])/i
_CONTAINS.1: /CONTAINS(?![\w$])/i
_STARTSWITH.1: /STARTSWITH(?![\w$])/i
_ENDSWITH.1: /ENDSWITH(?![\w$])/i
NULL.1: /NULL(?![\w$])/i
TRUE.1: /TRUE(?![\w$])/i
FALSE.1: /FALSE(?![\w$])/i
NAME: /(?!(NOT|AND|OR|BETWEEN|IN|IS|NULL|TRUE|FALSE)(?![\w$]))[a-z_$][\w$]*/i

FLOATING.1: /\d+\.\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|\d+e[+-]?\d+/i
DECIMAL: /(0|[1-9]\d*)l?/i
STRING: /'(''|[^'])*'/

BLANK: /[ \t\n\r\f]+/
// A line comment ends with its line. Where no line ends, the two signs are signs.
LINE_COMMENT.1: /--[^\n\r]*[\n\r]/
BLOCK_COMMENT.1: /\/\*[^*]*\*(\*|[^*\/][^*]*\*)*\//
%ignore BLANK
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""


def _at(token: Token) -> int:
    return cast(int, token.start_pos)


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Builder(Transformer[Token, Condition]):
    """One method for each name in the grammar. The parser calls it as soon as it has seen all the parts."""

    start = staticmethod(terms.condition)
    negated = staticmethod(terms.negated)
    negation = staticmethod(terms.negation)
    equal = staticmethod(terms.equal)
    not_equal = staticmethod(terms.not_equal)
    greater = staticmethod(terms.greater)
    greater_or_equal = staticmethod(terms.greater_or_equal)
    less = staticmethod(terms.less)
    less_or_equal = staticmethod(terms.less_or_equal)
    between = staticmethod(terms.between)
    not_between = staticmethod(terms.not_between)

    def any_of(self, *parts: Term) -> Condition:
        return terms.any_of(parts)

    def all_of(self, *parts: Term) -> Condition:
        return terms.all_of(parts)

    def is_null(self, term: Term, _: Token) -> Condition:
        return terms.is_null(term)

    def is_not_null(self, term: Term, _: Token) -> Condition:
        return terms.is_not_null(term)

    def is_in(self, term: Term, *texts: Token) -> Condition:
        return terms.one_of(term, [_unquoted(text) for text in texts], wanted=True)

    def is_not_in(self, term: Term, *texts: Token) -> Condition:
        return terms.one_of(term, [_unquoted(text) for text in texts], wanted=False)

    def contains(self, term: Term, text: Token) -> Condition:
        return terms.text_test(term, _unquoted(text), str.__contains__, wanted=True)

    def not_contains(self, term: Term, text: Token) -> Condition:
        return terms.text_test(term, _unquoted(text), str.__contains__, wanted=False)

    def starts_with(self, term: Term, text: Token) -> Condition:
        return terms.text_test(term, _unquoted(text), str.startswith, wanted=True)

    def not_starts_with(self, term: Term, text: Token) -> Condition:
        return terms.text_test(term, _unquoted(text), str.startswith, wanted=False)

    def ends_with(self, term: Term, text: Token) -> Condition:
        return terms.text_test(term, _unquoted(text), str.endswith, wanted=True)

    def not_ends_with(self, term: Term, text: Token) -> Condition:
        return terms.text_test(term, _unquoted(text), str.endswith, wanted=False)

    def text(self, token: Token) -> Literal:
        return Literal(_unquoted(token), _at(token))

    def decimal(self, token: Token) -> Literal:
        digits = token.rstrip("lL")
        if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
            raise Misfit(f"{digits[:20]} is greater than {LONG_MAX}, the greatest number there is", _at(token))
        number = int(digits)
        return Literal(Int(number) if number <= INT_MAX else Long(number), _at(token))

    def floating(self, token: Token) -> Literal:
        number = float(token)
        if number in (0.0, float("inf")):
            # In Java, Double.MIN_VALUE is the least above zero: not even 0.0 passes.
            raise Misfit(f"{token[:20]} is not between 4.9E-324 and 1.8E308; for zero write 0", _at(token))
        return Literal(number, _at(token))

    def true(self, token: Token) -> Literal:
        return Literal(True, _at(token))

    def false(self, token: Token) -> Literal:
        return Literal(False, _at(token))

    def null(self, token: Token) -> Literal:
        return Literal(None, _at(token))

    def property(self, token: Token) -> Property:
        return Property(str(token), _at(token))


PARSER: Final = Lark(_GRAMMAR, parser="lalr", transformer=_Builder(), g_regex_flags=re.ASCII)
