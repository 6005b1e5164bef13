"""What windows hold, by one look at the whole log: the slow and plain way, to hold both pipelines to."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from streaming.model.items import Publication
from tidings.predicate import Missing, Verdict, judge, parse
from tidings.values import INT64_MAX, INT64_MIN, Value

Told: TypeAlias = tuple[int, dict[str, Value], dict[str, int]]
"""How many publications a window has, what is told of them, and what was left out."""

_CALL = re.compile(r"(\w+)\((?:(\d+), )?(\w*)(?:, ([\w.]+))?\)")


def expected(
    record: Mapping[str, Any], publications: Iterable[Publication], since_ms: int, until_ms: int, extra_ms: int = 0
) -> dict[int, Told]:
    """By its start, what an aggregate subscription is told of each window that closes by ``until_ms``.

    ``since_ms`` is when the tick came that named it, ``extra_ms`` how much longer windows of events wait. ``record`` has all
    properties of its window.
    """
    window, wants = record["window"], parse(record.get("where", ""))
    patience = Missing(record.get("missing", "optimistic"))
    members = [
        each
        for each in publications
        if each.entered_ms > since_ms and judge(wants, {**each.fields, "key": each.key}, patience) is Verdict.MATCHES
    ]
    found = (
        _counted(window, members, until_ms - extra_ms)
        if "size" in window
        else _timed(window, members, since_ms, until_ms, extra_ms)
    )
    return {start: _told(group, window["of"]) for start, group in found if group or window["empty"]}


def _timed(
    window: Mapping[str, Any], members: Sequence[Publication], since_ms: int, until_ms: int, extra_ms: int
) -> Iterator[tuple[int, list[Publication]]]:
    size, shift, grace = window["size_ms"], window["shift_ms"], window["grace_ms"]
    start = -(-since_ms // shift) * shift
    while start + size + grace + extra_ms <= until_ms:
        inside = [each for each in members if start <= each.published_ms < start + size]
        yield start, [each for each in inside if each.entered_ms < start + size + grace]
        start += shift


def _counted(window: Mapping[str, Any], members: Sequence[Publication], until_ms: int) -> Iterator[tuple[int, list[Publication]]]:
    entered = sorted(members, key=lambda each: (each.entered_ms, each.entered_at, each.id))
    entered = [each for each in entered if each.entered_ms < until_ms]
    for start in range(0, len(entered) - window["size"] + 1, window["shift"]):
        yield start, entered[start : start + window["size"]]


def late(records: Iterable[Mapping[str, Any]], publication: Publication) -> list[str]:
    """The aggregate subscriptions for which a publication came after a window that it would have counted in had closed."""
    found = []
    for record in records:
        window = record["window"]
        facts = {**publication.fields, "key": publication.key}
        patience = Missing(record.get("missing", "optimistic"))
        if "size" in window or judge(parse(record.get("where", "")), facts, patience) is not Verdict.MATCHES:
            continue
        published_ms, size, shift = publication.published_ms, window["size_ms"], window["shift_ms"]
        starts = [start for start in range(published_ms - published_ms % shift, published_ms - size, -shift) if start >= 0]
        if any(publication.entered_ms >= start + size + window["grace_ms"] for start in starts):
            found.append(record["name"])
    return sorted(found)


def _told(members: Sequence[Publication], of: Mapping[str, str]) -> Told:
    members = sorted(members, key=lambda each: (each.published_ms, each.id))
    news: dict[str, Value] = {}
    left_out: dict[str, int] = {}
    for name, text in of.items():
        found = _CALL.fullmatch(text)
        assert found is not None
        function, k, field, more = found.groups()
        if not field:
            news[name] = len(members)
            continue
        values = [each.fields[field] for each in members if each.fields.get(field) is not None]
        if function in _OF_NUMBERS:
            numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
            left_out[name] = len(values) - len(numbers)
            news[name] = _OF_NUMBERS[function](numbers, float(more or 0))
        else:
            news[name] = _OF_VALUES[function](values, int(k or 0))
    return len(members), news, {name: count for name, count in left_out.items() if count}


def _mean(numbers: Sequence[Fraction]) -> Fraction:
    return sum(numbers, Fraction()) / len(numbers)


def _variance(numbers: Sequence[Fraction]) -> Fraction:
    return _mean([(each - _mean(numbers)) ** 2 for each in numbers])


def _sum(numbers: Sequence[int | float]) -> int | float:
    total = sum(map(Fraction, numbers), Fraction())
    whole = all(isinstance(each, int) for each in numbers) and INT64_MIN <= total <= INT64_MAX
    return int(total) if whole else float(total)


def _smoothed(numbers: Sequence[int | float], alpha: float) -> float | None:
    average = float(numbers[0]) if numbers else None
    for number in numbers[1:]:
        assert average is not None
        average = alpha * number + (1 - alpha) * average
    return average


def _rank(value: Value) -> tuple[int, Any]:
    """Booleans, numbers, texts, lists. True would be 1."""
    return [isinstance(value, kind) for kind in (bool, int | float, str, tuple)].index(True), value


def _top(values: Sequence[Value], k: int) -> tuple[str, ...]:
    often = Counter(map(_rank, values))
    first = sorted(often, key=lambda fact: (-often[fact], fact))[:k]
    return tuple(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for _, value in first)


_OF_NUMBERS: Mapping[str, Callable[[Sequence[int | float], float], Value]] = {
    "sum": lambda numbers, _: _sum(numbers),
    "avg": lambda numbers, _: float(_mean([*map(Fraction, numbers)])) if numbers else None,
    "variance": lambda numbers, _: float(_variance([*map(Fraction, numbers)])) if numbers else None,
    "ema": _smoothed,
}
_OF_VALUES: Mapping[str, Callable[[Sequence[Value], int], Value]] = {
    "count": lambda values, _: len(values),
    "min": lambda values, _: min(values, key=_rank, default=None),
    "max": lambda values, _: max(values, key=_rank, default=None),
    "first": lambda values, _: values[0] if values else None,
    "last": lambda values, _: values[-1] if values else None,
    "distinct": lambda values, _: len(set(map(_rank, values))),
    "top": _top,
}
