"""The functions of an aggregate subscription, as they are written.

    {"avg_speed": "avg(speed)", "n": "count()", "busiest": "top(3, road)"}

A function is *decomposable* if what is known of some publications stays small whatever they say, so that a broker can send that
instead of the publications. The others need every value, or the order of the values, and are computed where they are told
(see `tidings.partial`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from tidings import predicate
from tidings.errors import BadPredicate, TidingsError

MAX_LENGTH, MAX_TOP = 4000, 100


class BadAggregate(TidingsError):
    """A function that does not parse; ``position`` is the 0-based offset of the first character that is wrong."""

    exit_code = 2

    def __init__(self, text: str, position: int, detail: str) -> None:
        super().__init__(f"{detail} at position {position} of {text[:200]!r}")
        self.text, self.position, self.detail = text, position, detail


class Function(StrEnum):
    """What an aggregate subscription can ask of a field."""

    COUNT, SUM, MIN, MAX, AVG, VARIANCE = "count", "sum", "min", "max", "avg", "variance"
    TOP, FIRST, LAST, DISTINCT, EMA = "top", "first", "last", "distinct", "ema"


_SMALL = frozenset(
    {
        *(Function.COUNT, Function.SUM, Function.MIN, Function.MAX, Function.AVG, Function.VARIANCE),
        *(Function.FIRST, Function.LAST),
    }
)
"""Those whose partial stays small. Of one that is not named here every publication is sent, which is never wrong."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of a field; only `count` can do without one. ``k`` is of `top`, ``alpha`` of `ema`, ``approx`` of `distinct`."""

    function: Function
    field: str | None = None
    k: int = 0
    alpha: float = 0.0
    approx: bool = False

    @property
    def decomposable(self) -> bool:
        """Whether a partial is a small message."""
        return self.approx or self.function in _SMALL

    def __str__(self) -> str:
        """The canonical text; parsed again, it gives the same function."""
        name = "" if self.field is None else predicate.render(predicate.Exists(self.field)).removeprefix("exists(")[:-1]
        before = f"{self.k}, " if self.function is Function.TOP else ""
        after = f", {self.alpha!r}" if self.function is Function.EMA else ", approx" if self.approx else ""
        return f"{self.function}({before}{name}{after})"


Of: TypeAlias = tuple[tuple[str, Aggregate], ...]
"""The functions of a subscription, each with the name of its result."""


def parse(text: str) -> Aggregate:
    """The function that a text means. Fields are named as in `where`: in double quotes unless they are plain words."""
    if len(text) > MAX_LENGTH:
        raise BadAggregate(text, MAX_LENGTH, f"a function has at most {MAX_LENGTH} characters")
    first, *rest = _WORD.finditer(text)
    name = (first["name"] or "").lower()
    if name not in list(Function):
        raise _misplaced(first, f"one of {', '.join(Function)}")
    function = Function(name)
    shape = _shape(function, [word[0].strip() for word in rest])
    taken = {item: _taken(word, item, function) for item, word in zip(shape, rest, strict=False)}
    aggregate = Aggregate(function, taken.get("field"), taken.get("k", 0), taken.get("alpha", 0.0), "approx" in taken)
    # Canonical spacing can be wider than the author's. Whoever keeps the canonical text must be able to read it back.
    if len(str(aggregate)) > MAX_LENGTH:
        raise BadAggregate(text, len(text), f"written canonically, it has more than {MAX_LENGTH} characters")
    return aggregate


_WORD = re.compile(
    r"""\s*(?: (?P<name>[A-Za-z_][A-Za-z0-9_.-]*) | (?P<quoted>"(?:[^"\\]|\\["\\])*") | (?P<mark>[(),]) | (?P<end>\Z)
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) | (?P<other>.) )""",
    re.ASCII | re.VERBOSE | re.DOTALL,
)
_USAGE = {"count": "([field])", "top": "(k, field)", "ema": "(field, alpha)", "distinct": "(field[, approx])"}
_EXPECTED = {"field": "a field", "k": f"an integer from 1 to {MAX_TOP}", "alpha": "a number above 0 and up to 1", "": "the end"}


def _shape(function: Function, words: list[str]) -> list[str]:
    """What has to follow the name of the function. Nothing nests, so brackets cannot get deep."""
    inner = {Function.TOP: ["k", ",", "field"], Function.EMA: ["field", ",", "alpha"]}.get(function, ["field"])
    if function is Function.COUNT and words[1:2] == [")"]:
        inner = []
    if function is Function.DISTINCT and words[2:3] == [","]:
        inner = ["field", ",", "approx"]
    return ["(", *inner, ")", ""]


def _taken(word: re.Match[str], item: str, function: Function) -> Any:
    """What a word says, if it is what belongs here."""
    kind = word.lastgroup or "end"
    found = word[kind]
    if item == "field" and kind in ("name", "quoted"):
        try:
            return next(iter(predicate.fields_of(predicate.parse(f"exists({found})"))))
        except BadPredicate:
            pass
    elif item == "k" and kind == "number" and found.isdecimal() and 1 <= int(found) <= MAX_TOP:
        return int(found)
    elif item == "alpha" and kind == "number" and 0 < float(found) <= 1:
        return float(found)
    elif item not in ("field", "k", "alpha") and found.lower() == item:
        return None
    raise _misplaced(word, f"{_EXPECTED.get(item, repr(item))} of {function}{_USAGE.get(function, '(field)')}")


def _misplaced(word: re.Match[str], expected: str) -> BadAggregate:
    kind = word.lastgroup or "end"
    detail = f"expected {expected}, found {repr(word[kind][:20]) if word[kind] else 'the end of the text'}"
    if word[kind] == '"':
        detail = "this quote is never closed, or a backslash stands before neither a quote nor a backslash"
    return BadAggregate(word.string, word.start(kind), detail)
