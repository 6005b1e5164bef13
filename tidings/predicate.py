"""The `where` of a subscription: which events it is about, in a small language over an event's fields.

    severity >= 3 and (kind = 'fire' or kind prefix 'smoke') and not exists(closed)

An event is known in parts, so a predicate is often asked before its fields are stated, and can then answer neither yes
nor no: `evaluate` is Kleene's strong three-valued logic, `judge` says what UNKNOWN means to a subscription.
The grammar is in `where.lark`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cache, lru_cache
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, TypeAlias

from tidings.errors import BadPredicate
from tidings.values import INT64_MAX, INT64_MIN, Value, same, sort_key

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

MAX_LENGTH, MAX_NESTING = 4096, 64

Scalar: TypeAlias = str | int | float | bool | None


class Op(StrEnum):
    """The signs that a field is compared by."""

    EQ, NE, LT, LE, GT, GE = "=", "!=", "<", "<=", ">", ">="


class _Exact:
    """Equal when written the same: Python holds True == 1, but `a = true` and `a = 1` are two predicates."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True, slots=True, eq=False)
class Compare(_Exact):
    """A field compared with a literal."""

    field: str
    op: Op
    value: Scalar


@dataclass(frozen=True, slots=True, eq=False)
class In(_Exact):
    """A field has one of the values."""

    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A string begins with ``value``."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Contains:
    """A string has ``value`` in it, or a list of strings has it as an element."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Exists:
    """The field is stated, even if as empty."""

    field: str


@dataclass(frozen=True, slots=True)
class Not:
    """The term does not hold."""

    term: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All terms hold."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the terms holds."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Everything:
    """No condition at all: what an empty text means. Never a part of another predicate."""


Test: TypeAlias = Compare | In | Prefix | Contains
Predicate: TypeAlias = Test | Exists | Not | And | Or | Everything


@lru_cache(maxsize=1024)
def parse(text: str) -> Predicate:
    """The predicate that a text means. An ``and`` within an ``and`` becomes one And, likewise ``or``.

    >>> parse("a = 1 AND (b > 2 and c != null)") == parse("a=1 and b>2 and c!=null")
    True
    """
    from lark import UnexpectedCharacters, UnexpectedToken

    if len(text) > MAX_LENGTH:
        raise BadPredicate(text, MAX_LENGTH, f"a predicate has at most {MAX_LENGTH} characters")
    try:
        tree = _grammar().parse(text)
    except UnexpectedCharacters as wrong:
        raise _unreadable(text, wrong.pos_in_stream or 0) from None
    except UnexpectedToken as wrong:  # its token is empty at the end of the text, and only there
        raise _misplaced(text, wrong.token.start_pos or 0 if wrong.token else len(text), wrong.token) from None
    predicate = _build(text, tree, 0)
    # Canonical spacing can be wider than the author's. Whoever keeps the canonical text must be able to read it back.
    if len(render(predicate)) > MAX_LENGTH:
        raise BadPredicate(text, len(text), f"written canonically, it has more than {MAX_LENGTH} characters")
    return predicate


@cache
def _grammar() -> Lark:
    # Imported here, not above: much imports this module, little parses a predicate.
    from lark import Lark

    # The basic lexer keeps keywords reserved: the contextual one would read `in = 3` as a field. ASCII, because a
    # case-insensitive `in` would otherwise match the Turkish dotless i.
    return Lark.open("where.lark", rel_to=__file__, parser="lalr", lexer="basic", g_regex_flags=re.ASCII)


def _build(text: str, tree: Tree[Token], depth: int) -> Predicate:
    """The predicate of a subtree. The parser itself does not recurse, and this ends at `MAX_NESTING`."""
    tokens = [part for part in tree.children if isinstance(part, str)]
    subtrees = [part for part in tree.children if not isinstance(part, str)]
    match tree.data:
        case "everything":
            return Everything()
        case "group" | "negation":
            if depth == MAX_NESTING:
                raise BadPredicate(text, tokens[0].start_pos or 0, f"brackets and 'not' nest at most {depth} deep")
            inner = _build(text, subtrees[0], depth + 1)
            return Not(inner) if tree.data == "negation" else inner
        case "disjunction" | "conjunction":
            join = Or if tree.data == "disjunction" else And
            terms: list[Predicate] = []
            for subtree in subtrees:
                term = _build(text, subtree, depth)
                terms.extend(term.terms if isinstance(term, join) else (term,))
            return join(tuple(terms))
    return _build_leaf(text, tree.data, *tokens)


def _build_leaf(text: str, kind: str, name: Token, *rest: Token) -> Predicate:
    field = re.sub(r"\\(.)", r"\1", name[1:-1]) if name.type == "QUOTED" else str(name)
    if kind == "existence":
        return Exists(field)
    if kind == "comparison":
        return Compare(field, Op(rest[0]), _literal(text, rest[1]))
    if kind in ("prefix", "contains"):
        return (Prefix if kind == "prefix" else Contains)(field, str(_literal(text, rest[0])))
    listed = In(field, tuple([_literal(text, token) for token in rest]))
    return Not(listed) if kind == "absence" else listed


def _literal(text: str, token: Token) -> Scalar:
    if token.type == "STRING":
        return token[1:-1].replace("''", "'")
    if token.type != "NUMBER":
        return {"TRUE": True, "FALSE": False, "NULL": None}[token.type]
    number = float(token) if set(token) & set(".eE") else int(token)
    if not (INT64_MIN <= number <= INT64_MAX if isinstance(number, int) else math.isfinite(number)):
        raise BadPredicate(text, token.start_pos or 0, "this number does not fit into 64 bits")
    return number


# What belongs where an error stands: named by the first of these tokens that would have fitted.
_PLACES = {
    "_EXISTS": "a comparison",
    "NAME": "a field",
    "OP": "an operator",
    "NUMBER": "a literal (strings have single quotes)",
    "STRING": "a string in single quotes",
    "_IN": "'in'",
    "LPAR": "'('",
    "COMMA": "',' or ')'",
    "_AND": "'and' or 'or'",
    "RPAR": "')'",
}


def _misplaced(text: str, position: int, found: str) -> BadPredicate:
    # Asked anew of the text before: at the error, the parser has already given up some of what it could have taken.
    parser = _grammar().parse_interactive(text[:position])
    parser.exhaust_lexer()
    fitting: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    expected = next(place for token, place in _PLACES.items() if token in fitting)
    if {"_AND", "RPAR"} <= fitting:
        expected += " or ')'"
    shown = repr(found[:20]) if found else "the end of the text"
    return BadPredicate(text, position, f"expected {expected}, found {shown}")


def _unreadable(text: str, position: int) -> BadPredicate:
    """The error for a character that begins no token."""
    if text[position] not in "'\"":
        return _misplaced(text, position, text[position])
    if escape := re.compile(r'"(?:[^"\\]|\\["\\])*(?=\\[^"\\])').match(text, position):
        return BadPredicate(text, escape.end(), "in a field name, only a quote or a backslash follows a backslash")
    return BadPredicate(text, position, "this quote is never closed")


def render(predicate: Predicate) -> str:
    """The canonical text of a predicate as `parse` builds it; parsed again, it gives the same predicate.

    >>> render(parse("NOT(a=1 and(b=2))or \\"in\\" prefix 'x'"))
    'not (a = 1 and b = 2) or "in" prefix \\'x\\''
    """
    match predicate:
        case Everything():
            return ""
        case Or(terms):
            return " or ".join([render(term) for term in terms])
        case And(terms):
            return " and ".join([f"({render(term)})" if isinstance(term, Or) else render(term) for term in terms])
        case Not(In(field, values)):
            return f"{_name(field)} not in ({', '.join(map(_quoted, values))})"
        case Not(term):
            return f"not ({render(term)})" if isinstance(term, And | Or) else f"not {render(term)}"
        case Exists(field):
            return f"exists({_name(field)})"
        case In(field, values):
            return f"{_name(field)} in ({', '.join(map(_quoted, values))})"
        case Compare(field, op, value):
            return f"{_name(field)} {op} {_quoted(value)}"
        case Prefix(field, text) | Contains(field, text):
            return f"{_name(field)} {'prefix' if isinstance(predicate, Prefix) else 'contains'} {_quoted(text)}"


@cache
def _bare() -> re.Pattern[str]:
    """A field that needs no quotes: it is no keyword. Those are what goes before a name in the grammar."""
    keywords = "|".join(token.pattern.value.partition("(?!")[0] for token in _grammar().terminals if token.priority > 0)
    return re.compile(rf"(?!(?i:{keywords})\Z)[A-Za-z_][A-Za-z0-9_.-]*")


def _name(field: str) -> str:
    return field if _bare().fullmatch(field) else '"' + re.sub(r'(["\\])', r"\\\1", field) + '"'


def _quoted(value: Scalar) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "null" if value is None else repr(value).lower()


class Truth(Enum):
    """What a predicate is of what is stated so far: three-valued, as a field may not be stated yet."""

    TRUE, FALSE, UNKNOWN = "true", "false", "unknown"


def evaluate(predicate: Predicate, facts: Mapping[str, Value]) -> Truth:
    """Whether the predicate holds of what is stated; UNKNOWN when that depends on a field not stated yet."""
    match predicate:
        case Everything():
            return Truth.TRUE
        case Exists(field):
            return Truth.TRUE if field in facts else Truth.FALSE
        case Not(term):
            truth = evaluate(term, facts)
            return truth if truth is Truth.UNKNOWN else Truth.FALSE if truth is Truth.TRUE else Truth.TRUE
        case And(terms) | Or(terms):
            # One decisive term decides, whatever the others will turn out to be.
            result, decisive = (Truth.TRUE, Truth.FALSE) if isinstance(predicate, And) else (Truth.FALSE, Truth.TRUE)
            for term in terms:
                truth = evaluate(term, facts)
                if truth is decisive:
                    return decisive
                if truth is Truth.UNKNOWN:
                    result = truth
            return result
    if predicate.field not in facts:
        return Truth.UNKNOWN
    return Truth.TRUE if holds(predicate, facts[predicate.field]) else Truth.FALSE


_ORDERINGS: Mapping[Op, Callable[..., bool]] = {Op.LT: lt, Op.LE: le, Op.GT: gt, Op.GE: ge}


def holds(test: Test, fact: Value) -> bool:
    """Whether a stated value is what is asked for."""
    match test:
        case Compare(_, Op.EQ, value):
            return same(fact, value)
        case Compare(_, Op.NE, value):
            return not same(fact, value)
        case Compare(_, op, value):
            mine, other = sort_key(fact), sort_key(value)
            # Kinds have an order only so that values can be sorted: between two kinds, nothing is less or more.
            return fact is not None and mine[0] == other[0] and _ORDERINGS[op](mine, other)
        case In(_, values):
            return any(same(fact, value) for value in values)
        case Prefix(_, text):
            return isinstance(fact, str) and fact.startswith(text)
        case Contains(_, text):
            return isinstance(fact, str | tuple) and text in fact


class Missing(StrEnum):
    """What a subscription makes of fields that its predicate needs and nobody has stated yet."""

    OPTIMISTIC, PATIENT = "optimistic", "patient"


class Verdict(StrEnum):
    """What a subscription makes of an event: its business, not its business, or too early to say."""

    MATCHES, DIFFERS, WAITS = "matches", "differs", "waits"


def judge(predicate: Predicate, facts: Mapping[str, Value], missing: Missing) -> Verdict:
    """Whether an event is the subscription's business, by what is stated of it so far."""
    truth = evaluate(predicate, facts)
    if truth is Truth.UNKNOWN:
        return Verdict.WAITS if missing is Missing.PATIENT else Verdict.MATCHES
    return Verdict.MATCHES if truth is Truth.TRUE else Verdict.DIFFERS


def fields_of(predicate: Predicate) -> frozenset[str]:
    """Every field that the predicate asks about."""
    match predicate:
        case Everything():
            return frozenset()
        case Not(term):
            return fields_of(term)
        case And(terms) | Or(terms):
            return frozenset().union(*[fields_of(term) for term in terms])
    return frozenset({predicate.field})
