"""What a dry run is expected to tell, as patterns; and how what it told differs from that."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from streaming.wire.notification import notification_dict
from streaming.world.dry_run import Told
from streaming.world.script import BadLine
from tidings.values import Value, plain, same

_WHO: Final = ("subscription", "subscriber")
PARTS: Final = (
    *_WHO,
    "topic",
    "key",
    "reason",
    "news",
    "at_ms",
    "broker",
    "revision",
    "reports",
    "sources",
    "conflicts",
    "digest",
)
"""What a pattern may speak of, beside ``count``. ``digest`` is the news of each further event."""
_MOST = 100_000
_MOST_PAIRS = 2_000_000
_ANY = "any"
_GAP = 20
"""The price of a notification too few or too many; a pair that is alike in something costs less than two gaps."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A pattern: what it does not speak of may be anything. ``count`` such notifications in a row; None for any number."""

    line: int
    says: Mapping[str, Any]
    count: int | None = 1

    def differs(self, told: Told) -> tuple[str, ...]:
        """The parts of a notification that are not as expected."""
        return tuple(name for name in self.says if not _alike(self.says[name], _part(told, name)))


class Agreement(StrEnum):
    """How one notification compares."""

    SAME = "same"
    """It was expected, and told."""
    MISSING = "missing"
    """It was expected, and not told."""
    EXTRA = "extra"
    """It was told, and not expected."""
    OTHER = "other"
    """Something like it was told."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """One expected notification, one that was told, or a pair of them; ``differs`` are the parts in which a pair does."""

    verdict: Agreement
    expected: Expected | None
    told: Told | None
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToldComparison:
    """All of one subscription, or of one subscriber, in order."""

    who: str
    name: str
    steps: tuple[Pairing, ...]

    @property
    def holds(self) -> bool:
        return all(step.verdict is Agreement.SAME for step in self.steps)


def _part(told: Told, name: str) -> Any:
    if name in ("at_ms", "broker"):
        return getattr(told, name)
    found = getattr(told.notification, name)
    match name:
        case "news":
            return {field: plain(value) for field, value in found.items()}
        case "conflicts":
            return {field: [plain(value) for value in values] for field, values in found.items()}
        case "digest":
            return [{field: plain(value) for field, value in each.news.items()} for each in found]
    return found


def parts_of(told: Told) -> dict[str, Any]:
    """What was told, as patterns speak of it."""
    return {**notification_dict(told.notification), "at_ms": told.at_ms, "broker": told.broker}


def _alike(expected: Any, found: Any) -> bool:
    """Equal as facts are: 3 and 3.0 are, true and 1 are not."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(_alike(expected[name], found[name]) for name in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(_alike(a, b) for a, b in zip(expected, found, strict=True))
    if isinstance(expected, dict | list) or isinstance(found, dict | list):
        return False
    mine: Value = expected
    return same(mine, found)


# ---- the file ---------------------------------------------------------------------------------------------------------


def read_expected(text: bytes) -> tuple[list[Expected], list[BadLine]]:
    """The patterns in a file, one JSON object a line, and all that is wrong with it."""
    found: list[Expected] = []
    wrong: list[BadLine] = []
    for number, line in enumerate(text.split(b"\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            continue
        try:
            found.append(_pattern(number, json.loads(stripped)))
        except json.JSONDecodeError as error:
            wrong.append(BadLine(number, f"not JSON: {error.msg} at character {error.pos}"))
        except (ValueError, RecursionError) as error:
            wrong.append(BadLine(number, str(error)))
    return found, wrong


def _pattern(line: int, datum: Any) -> Expected:
    if not isinstance(datum, dict):
        raise ValueError('an expectation is an object, like {"subscription": "ops", "reason": "first"}')
    says = dict(datum)
    count = says.pop("count", 1)
    if count != _ANY and (isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST):
        raise ValueError(f"'count' must be a number from 0 to {_MOST}, or \"any\", not {count!r}")
    if unknown := sorted(says.keys() - set(PARTS)):
        raise ValueError(f"unknown property {unknown[0]!r}; there are {', '.join(PARTS)} and count")
    if not any(isinstance(says.get(who), str) for who in _WHO):
        raise ValueError("an expectation needs a 'subscription' or a 'subscriber', to say who is told")
    return Expected(line, says, None if count == _ANY else count)


def write_expected(told: Iterable[Told], subscriptions: Iterable[str]) -> str:
    """What was told, as the expectation that it stays so; whoever was told nothing is named too."""
    told = list(told)
    lines = [json.dumps(_written(each), ensure_ascii=False) for each in told]
    silent = sorted(set(subscriptions) - {each.notification.subscription for each in told})
    lines += [json.dumps({"subscription": name, "count": 0}, ensure_ascii=False) for name in silent]
    return "".join(f"{line}\n" for line in lines)


def _written(told: Told) -> dict[str, Any]:
    digest = ("digest",) if told.notification.digest else ()
    return {name: _part(told, name) for name in ("at_ms", "subscription", "topic", "key", "reason", "news", *digest)}


# ---- comparing --------------------------------------------------------------------------------------------------------


def compare(expected: Sequence[Expected], told: Sequence[Told]) -> list[ToldComparison]:
    """Hold what was told to the expectation, in order for each subscription.

    The expectation is the whole of it: what nobody expected is a difference, even for a subscription that is not named.
    """
    patterns: dict[tuple[str, str], list[Expected]] = {}
    for each in expected:
        who = next(who for who in _WHO if who in each.says)
        patterns.setdefault((who, each.says[who]), []).append(each)
    heard: dict[tuple[str, str], list[Told]] = {at: [] for at in patterns}
    for one in told:
        mine, subscriber = ("subscription", one.notification.subscription), ("subscriber", one.notification.subscriber)
        heard.setdefault(subscriber if mine not in patterns and subscriber in patterns else mine, []).append(one)
    return [ToldComparison(*at, tuple(_steps(patterns.get(at, []), heard[at]))) for at in sorted(heard)]


def _steps(expected: list[Expected], told: list[Told]) -> Iterator[Pairing]:
    never = [each for each in expected if each.count == 0]
    row = [each for each in expected for _ in range(1 if each.count is None else each.count)]
    forbidden = {one.number: each for one in told for each in never if not each.differs(one)}
    for step in _aligned(row, told):
        clash = forbidden.get(step.told.number) if step.told else None
        # What must not be told is extra, even where another pattern would have taken it.
        yield step if clash is None else Pairing(Agreement.EXTRA, clash, step.told)


def _aligned(row: list[Expected], told: list[Told]) -> list[Pairing]:
    """The cheapest way to lay the two beside each other, as a readable diff has it."""
    start, most = 0, min(len(row), len(told))
    while start < most and row[start].count is not None and not row[start].differs(told[start]):
        start += 1
    end, most = 0, most - start
    while end < most and row[-1 - end].count is not None and not row[-1 - end].differs(told[-1 - end]):
        end += 1
    middle = _cheapest(row[start : len(row) - end], told[start : len(told) - end])
    return [*_pairs(row[:start], told[:start]), *middle, *_pairs(row[len(row) - end :], told[len(told) - end :])]


def _pairs(row: list[Expected], told: list[Told]) -> Iterator[Pairing]:
    return (Pairing(Agreement.SAME, *pair) for pair in zip(row, told, strict=True))


def _cheapest(row: list[Expected], told: list[Told]) -> Iterator[Pairing]:
    if len(row) * len(told) > _MOST_PAIRS:  # nobody reads a diff of that size: only that they differ matters
        yield from (Pairing(Agreement.MISSING, each, None) for each in row if each.count is not None)
        yield from (Pairing(Agreement.EXTRA, None, each) for each in told)
        return
    # cost[i][j] is the price of all from row[i] and told[j] on, first[i][j] the first step of the cheapest way.
    free = [each.count is None for each in row]
    cost = [[0] * (len(told) + 1) for _ in range(len(row) + 1)]
    first: list[list[Agreement]] = [[Agreement.SAME] * (len(told) + 1) for _ in range(len(row) + 1)]
    for i in range(len(row), -1, -1):
        for j in range(len(told), -1, -1):
            if i < len(row) or j < len(told):
                cost[i][j], first[i][j] = min(_choices(row, told, free, cost, i, j), key=lambda choice: choice[0])
    yield from _walk(row, told, free, first)


def _choices(
    row: list[Expected], told: list[Told], free: list[bool], cost: list[list[int]], i: int, j: int
) -> Iterator[tuple[int, Agreement]]:
    if i < len(row) and j < len(told):
        differs = row[i].differs(told[j])
        if not differs:
            yield cost[i if free[i] else i + 1][j + 1], Agreement.SAME
        elif not free[i] and (alike := len(row[i].says) - len(differs)) > 1:  # who is told is always alike
            yield cost[i + 1][j + 1] + 2 * _GAP - alike, Agreement.OTHER
    if i < len(row):
        yield cost[i + 1][j] + (0 if free[i] else _GAP), Agreement.MISSING
    if j < len(told):
        yield cost[i][j + 1] + _GAP, Agreement.EXTRA


def _walk(row: list[Expected], told: list[Told], free: list[bool], first: list[list[Agreement]]) -> Iterator[Pairing]:
    i = j = 0
    while i < len(row) or j < len(told):
        verdict = first[i][j]
        match verdict:
            case Agreement.EXTRA:
                yield Pairing(verdict, None, told[j])
                j += 1
            case Agreement.MISSING:
                if not free[i]:
                    yield Pairing(verdict, row[i], None)
                i += 1
            case _:
                yield Pairing(verdict, row[i], told[j], row[i].differs(told[j]))
                i, j = i if free[i] else i + 1, j + 1
