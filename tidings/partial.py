"""What is known of a set of publications before all of them have come, for the functions of an aggregate subscription.

What is known of some publications is a *partial*. Partials merge, and in any order and grouping they give what one look at all
publications would give, bit for bit. Numbers are therefore summed exactly, and rounded once, when the result is told.

Functions that are not decomposable keep values, up to `MOST_VALUES` of a window. What becomes of more does not depend on their
order either: `ema` goes by the latest, and `distinct` and `top` tell nothing. What is not kept is counted as left out.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from tidings.aggregate import Aggregate, Function, Of
from tidings.values import INT64_MAX, INT64_MIN, SortKey, Value, fact_digest, sort_key

MOST_VALUES = 100_000
LONG_VALUE = 100
"""Characters. What is longer counts as several values."""


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
    """How often each value was stated; nothing once they are ``full``, which follows from the values alone."""

    facts: dict[SortKey, int] = field(default_factory=dict)
    room: int = 0
    full: bool = False

    def add(self, _aggregate: Aggregate, value: Value, _at_ms: int, _message_id: str) -> None:
        if not self.full:
            fact = sort_key(_fact(value))
            if fact not in self.facts:
                self.room += _room(fact)
            self.facts[fact] = self.facts.get(fact, 0) + 1
            self._bound()

    def merged(self, _aggregate: Aggregate, other: _Tally) -> _Tally:
        if self.full or other.full:
            return _Tally(full=True)
        room = self.room + sum(_room(fact) for fact in other.facts if fact not in self.facts)
        both = _Tally(_added_up(self.facts, other.facts), room)
        both._bound()
        return both

    def _bound(self) -> None:
        if self.room > MOST_VALUES:
            self.facts, self.room, self.full = {}, 0, True

    def over(self, taken: int) -> int:
        return taken if self.full else 0

    def result(self, aggregate: Aggregate, _number: int) -> Value:
        if self.full:
            return None
        if aggregate.function is Function.DISTINCT:
            return len(self.facts)
        often = sorted(self.facts, key=lambda fact: (-self.facts[fact], fact))[: aggregate.k]
        return tuple(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for _, value in often)


def _room(fact: SortKey) -> int:
    """What a value counts for: texts and lists may be long."""
    value = fact[1]
    length = len(value) if isinstance(value, str) else sum(map(len, value)) if isinstance(value, tuple) else 0
    return 1 + length // LONG_VALUE


class _Readings(Struct, array_like=True, tag=4):
    """The latest numbers, in order of published time, then message id."""

    readings: list[tuple[int, str, float]] = field(default_factory=list)

    def add(self, _aggregate: Aggregate, value: Any, at_ms: int, message_id: str) -> None:
        insort(self.readings, (at_ms, message_id, value + 0.0))  # the sum makes 0.0 of -0.0, which has the same place
        del self.readings[:-MOST_VALUES]

    def merged(self, _aggregate: Aggregate, other: _Readings) -> _Readings:
        return _Readings(sorted(self.readings + other.readings)[-MOST_VALUES:])

    def over(self, taken: int) -> int:
        return taken - len(self.readings)

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
    match aggregate.function:
        case Function.SUM | Function.AVG | Function.VARIANCE:
            return _Sums()
        case Function.TOP | Function.DISTINCT:
            return _Sketch() if aggregate.approx else _Tally()
        case Function.EMA:
            return _Readings()
        case Function.MIN | Function.MAX | Function.FIRST | Function.LAST:
            return _Chosen()
        case Function.COUNT:
            return None


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


def left_out(partial: Partial, of: Of) -> dict[str, int]:
    """By the name of the result, the values that it is told without: of a kind it cannot take, or too many to keep."""
    known = zip(of, partial.parts, partial.taken, strict=True)
    over = {name: part.over(taken) for (name, _), part, taken in known if isinstance(part, _Tally | _Readings)}
    return _added_up(partial.left_out, {name: count for name, count in over.items() if count})
