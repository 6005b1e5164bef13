"""The functions of an aggregate subscription, and what is known of a set of publications before all of them have come.

    {"avg_speed": "avg(speed)", "n": "count()", "busiest": "top(3, road)"}

What is known of some publications is a *partial*. Partials merge, and in any order and grouping they give what one look at all
publications would give, bit for bit. Numbers are therefore summed exactly, and rounded once, when the result is told.

A function is *decomposable* if its partial stays small whatever it has seen, so that a broker can send the partial instead of the
publications. The others need every value, or the order of the values, and are computed where they are told.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct, field

from tidings import predicate
from tidings.errors import BadPredicate, TidingsError
from tidings.values import INT64_MAX, INT64_MIN, SortKey, Value, fact_digest, sort_key

MAX_LENGTH, MAX_TOP = 4000, 100


class BadAggregate(TidingsError):
    """A function that does not parse; ``position`` is the 0-based offset of the first character that is wrong."""

    exit_code = 2

    def __init__(self, text: str, position: int, detail: str) -> None:
        super().__init__(f"{detail} at position {position} of {text[:200]!r}")
        self.text, self.position, self.detail = text, position, detail


class Function(StrEnum):
    COUNT, SUM, MIN, MAX, AVG, VARIANCE = "count", "sum", "min", "max", "avg", "variance"
    TOP, FIRST, LAST, DISTINCT, EMA = "top", "first", "last", "distinct", "ema"


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
        return self.approx or self.function not in (Function.DISTINCT, Function.TOP, Function.EMA)

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
    # Canonical spacing can be wider than the author's. Who keeps the canonical text must be able to read it back.
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


class _Sums(Struct, array_like=True, tag=1):
    """The sum of numbers in units of 2**-scale; for `variance` also of squares, of 4**-scale. Bytes, as 64 bits are too few."""

    whole: bool = True  # all numbers were integers
    scale: int = 0
    total: bytes = b"\0"
    squares: bytes = b"\0"

    def add(self, aggregate: Aggregate, value: Any, _at_ms: int, _message_id: str) -> None:
        self.whole = self.whole and isinstance(value, int)
        units, denominator = value.as_integer_ratio()
        total = int.from_bytes(self.total, "big", signed=True)
        finer = denominator.bit_length() - 1 - self.scale
        if finer > 0:
            total <<= finer
            self.scale += finer
            self.squares = _as_bytes(_as_int(self.squares) << 2 * finer)
        else:
            units <<= -finer
        total += units
        self.total = total.to_bytes(total.bit_length() // 8 + 1, "big", signed=True)
        if aggregate.function is Function.VARIANCE:
            self.squares = _as_bytes(_as_int(self.squares) + units * units)

    def merged(self, _aggregate: Aggregate, other: _Sums) -> _Sums:
        scale = max(self.scale, other.scale)
        total = sum(_as_int(each.total) << scale - each.scale for each in (self, other))
        squares = sum(_as_int(each.squares) << 2 * (scale - each.scale) for each in (self, other))
        return _Sums(self.whole and other.whole, scale, _as_bytes(total), _as_bytes(squares))

    def result(self, aggregate: Aggregate, number: int) -> Value:
        total = _as_int(self.total)
        if aggregate.function is Function.SUM:
            return total if self.whole and INT64_MIN <= total <= INT64_MAX else _rounded(total, 1 << self.scale)
        if aggregate.function is Function.AVG:
            return _rounded(total, number << self.scale)
        return _rounded(number * _as_int(self.squares) - total**2, number**2 << 2 * self.scale)


def _as_int(packed: bytes) -> int:
    return int.from_bytes(packed, "big", signed=True)


def _as_bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _rounded(numerator: int, denominator: int) -> float | None:
    """The nearest float; None if none is large enough, or if it is a mean of nothing."""
    try:
        return numerator / denominator
    except (OverflowError, ZeroDivisionError):
        return None


class _Chosen(Struct, array_like=True, tag=2):
    """One of the values: the smallest, the largest, the first or the last. Of the last two, who said it when."""

    value: Value = None
    at_ms: int = 0
    message_id: str = ""

    def add(self, aggregate: Aggregate, value: Value, at_ms: int, message_id: str) -> None:
        one = _Chosen(value, at_ms, message_id) if aggregate.function in (Function.FIRST, Function.LAST) else _Chosen(value)
        if self.value is None or one.wins(aggregate, self):
            self.value, self.at_ms, self.message_id = one.value, one.at_ms, one.message_id

    def merged(self, aggregate: Aggregate, other: _Chosen) -> _Chosen:
        chosen = _Chosen(self.value, self.at_ms, self.message_id)
        if other.value is not None:
            chosen.add(aggregate, other.value, other.at_ms, other.message_id)
        return chosen

    def wins(self, aggregate: Aggregate, other: _Chosen) -> bool:
        mine = (self.at_ms, self.message_id, sort_key(self.value))
        others = (other.at_ms, other.message_id, sort_key(other.value))
        # The writing decides between 3 and 3.0, which are one fact: the choice must not depend on the order.
        less = mine < others or (mine == others and repr(self.value) < repr(other.value))
        return less == (aggregate.function in (Function.MIN, Function.FIRST))

    def result(self, _aggregate: Aggregate, _number: int) -> Value:
        return self.value


class _Tally(Struct, array_like=True, tag=3):
    """How often each value was stated."""

    facts: dict[SortKey, int] = field(default_factory=dict)

    def add(self, _aggregate: Aggregate, value: Value, _at_ms: int, _message_id: str) -> None:
        fact = sort_key(_fact(value))
        self.facts[fact] = self.facts.get(fact, 0) + 1

    def merged(self, _aggregate: Aggregate, other: _Tally) -> _Tally:
        return _Tally(_added_up(self.facts, other.facts))

    def result(self, aggregate: Aggregate, _number: int) -> Value:
        if aggregate.function is Function.DISTINCT:
            return len(self.facts)
        often = sorted(self.facts, key=lambda fact: (-self.facts[fact], fact))[: aggregate.k]
        return tuple(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for _, value in often)


class _Readings(Struct, array_like=True, tag=4):
    """All numbers, in order of published time, then message id."""

    readings: list[tuple[int, str, float]] = field(default_factory=list)

    def add(self, _aggregate: Aggregate, value: Any, at_ms: int, message_id: str) -> None:
        insort(self.readings, (at_ms, message_id, value + 0.0))  # the sum makes 0.0 of -0.0, which has the same place

    def merged(self, _aggregate: Aggregate, other: _Readings) -> _Readings:
        return _Readings(sorted(self.readings + other.readings))

    def result(self, aggregate: Aggregate, _number: int) -> Value:
        """In floating point: exact numbers would grow with every reading, and the order alone decides every bit."""
        average = self.readings[0][2] if self.readings else math.nan
        for _, _, number in self.readings[1:]:
            average = aggregate.alpha * number + (1 - aggregate.alpha) * average
        return average if math.isfinite(average) else None


class _Sketch(Struct, array_like=True, tag=5):
    """The digests of the values while they are few, in order; then a sketch. Which it is follows from the values alone."""

    few: list[int] = field(default_factory=list)
    packed: bytes = b""

    def add(self, _aggregate: Aggregate, value: Value, _at_ms: int, _message_id: str) -> None:
        number = fact_digest(_fact(value))
        place = bisect_left(self.few, number)
        if self.packed:
            self.packed = _sketched([self.packed], [number])
        elif self.few[place : place + 1] != [number]:
            self.few.insert(place, number)
            if len(self.few) > _FEW:
                self.few, self.packed = [], _sketched([], self.few)

    def merged(self, _aggregate: Aggregate, other: _Sketch) -> _Sketch:
        few = sorted({*self.few, *other.few})
        packed = [each.packed for each in (self, other) if each.packed]
        return _Sketch([], _sketched(packed, few)) if packed or len(few) > _FEW else _Sketch(few)

    def result(self, _aggregate: Aggregate, _number: int) -> Value:
        from datasketches import hll_sketch

        return round(hll_sketch.deserialize(self.packed).get_estimate()) if self.packed else len(self.few)


_FEW = 160  # digests that take about the room of a sketch
_SKETCH_BITS = 11  # 2**11 registers: 1.5 KB, and a standard error of 2.3 %


def _sketched(packed: list[bytes], digests: list[int]) -> bytes:
    """The sketch of all that is in some sketches, and of some digests."""
    # Imported here, not above: much imports this module, little sketches.
    from datasketches import HLL_6, hll_sketch, hll_union

    # A sketch estimates by the history of its values, which a merge does not have, unless a flag says that they came in no order.
    # Then its registers alone decide the estimate, and the bytes.
    if not packed:
        blank = bytearray(hll_sketch(_SKETCH_BITS, HLL_6, True).serialize_compact())
        blank[5] |= 16
        packed = [bytes(blank)]
    sketch = hll_sketch.deserialize(packed[0])
    if len(packed) > 1:
        union = hll_union(_SKETCH_BITS)
        for each in packed:
            union.update(hll_sketch.deserialize(each))
        sketch = union.get_result(HLL_6)
    for digest in digests:
        sketch.update(digest)
    return bytes(sketch.serialize_compact())


def _fact(value: Value) -> Value:
    """One writing for each fact: a float that is a whole number, as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() and INT64_MIN <= value <= INT64_MAX else value


_Part: TypeAlias = _Sums | _Chosen | _Tally | _Readings | _Sketch


class Partial(Struct, array_like=True):
    """What is known of some publications. ``taken`` and ``parts`` are in the order of the functions; `count` needs no part.

    ``taken`` are the publications whose value a function took; ``left_out``, by the name of the result, those that stated one of
    a kind it cannot take.
    """

    taken: list[int]
    parts: list[_Part | None]
    left_out: dict[str, int] = field(default_factory=dict)
    publications: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


def empty(of: Of) -> Partial:
    """What is known of no publications."""
    return Partial([0] * len(of), [_part(aggregate) for _, aggregate in of])


def _part(aggregate: Aggregate) -> _Part | None:
    if aggregate.function in (Function.SUM, Function.AVG, Function.VARIANCE):
        return _Sums()
    if aggregate.function in (Function.TOP, Function.DISTINCT):
        return _Sketch() if aggregate.approx else _Tally()
    if aggregate.function is Function.EMA:
        return _Readings()
    return None if aggregate.function is Function.COUNT else _Chosen()


def added(partial: Partial, of: Of, published_ms: int, message_id: str, fields: Mapping[str, Value]) -> None:
    """Add one publication to a partial, which is changed."""
    partial.publications += 1
    partial.first_ms = published_ms if partial.first_ms is None else min(partial.first_ms, published_ms)
    partial.last_ms = published_ms if partial.last_ms is None else max(partial.last_ms, published_ms)
    for index, (name, aggregate) in enumerate(of):
        value = fields.get(aggregate.field) if aggregate.field is not None else True
        part = partial.parts[index]
        if value is None:
            continue
        if _takes(part, value):
            partial.taken[index] += 1
            if part is not None:
                part.add(aggregate, value, published_ms, message_id)
        else:
            partial.left_out = _added_up(partial.left_out, {name: 1})


def _takes(part: _Part | None, value: Value) -> bool:
    """Whether a function can take a value. Messages bring no infinite numbers; one would spoil every sum."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return INT64_MIN <= value <= INT64_MAX
    return not isinstance(part, _Sums | _Readings)


def merged(a: Partial, b: Partial, of: Of) -> Partial:
    """What both know together. Both stay as they are, and share nothing with it."""
    pairs: Any = zip(of, a.parts, b.parts, strict=True)  # for the same functions, the parts are of the same kinds
    times = [ms for ms in (a.first_ms, b.first_ms, a.last_ms, b.last_ms) if ms is not None]
    return Partial(
        taken=[mine + other for mine, other in zip(a.taken, b.taken, strict=True)],
        parts=[mine and mine.merged(aggregate, other) for (_, aggregate), mine, other in pairs],
        left_out=_added_up(a.left_out, b.left_out),
        publications=a.publications + b.publications,
        first_ms=min(times, default=None),
        last_ms=max(times, default=None),
    )


def _added_up(a: Mapping[Any, int], b: Mapping[Any, int]) -> dict[Any, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in sorted({*a, *b})}


def results(partial: Partial, of: Of) -> dict[str, Value]:
    """What is told, by the name of the result. Nothing has no average, no extremes, no first and no last: those are None."""
    known = zip(of, partial.parts, partial.taken, strict=True)
    return {name: number if part is None else part.result(aggregate, number) for (name, aggregate), part, number in known}
