"""Which of many subscriptions an event may concern: an index, so that nobody is asked in vain.

Most predicates need one field to be equal to something, or to begin with it (`area = 'a17' and severity >= 2`). Such a
subscription is filed under that field and value; the others are always asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidings.predicate import And, Compare, In, Missing, Op, Predicate, Prefix
from tidings.subscription import Subscription
from tidings.values import SortKey, Value, sort_key

_KEY = "key"


@dataclass(frozen=True, slots=True)
class _Needed:
    """A field, and the values of which it must have one; or how it must begin."""

    name: str
    values: tuple[Value, ...] = ()
    prefix: str | None = None


@dataclass(slots=True)
class _File:
    """Subscriptions that need one field to have a certain value."""

    by_value: dict[SortKey, list[int]] = field(default_factory=dict)
    by_prefix: dict[int, dict[str, list[int]]] = field(default_factory=dict)
    """By the length of the prefix, then by the prefix."""
    optimistic: list[int] = field(default_factory=list)
    """Those that an event concerns while the field is not stated."""

    def of(self, value: Value) -> Iterable[int]:
        """Those that want this value."""
        yield from self.by_value.get(sort_key(value), ())
        if isinstance(value, str):
            for length, filed in self.by_prefix.items():
                yield from filed.get(value[:length], ())

    def add(self, number: int, needed: _Needed) -> None:
        for value in {sort_key(value) for value in needed.values}:
            self.by_value.setdefault(value, []).append(number)
        if (prefix := needed.prefix) is not None:
            self.by_prefix.setdefault(len(prefix), {}).setdefault(prefix, []).append(number)


class Index:
    """Subscriptions to one topic at one broker."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._subscriptions = subscriptions
        self._always: list[int] = []
        self._files: dict[str, _File] = {}
        for number, subscription in enumerate(subscriptions):
            self._add(number, subscription)

    @property
    def needs_facts(self) -> bool:
        """Whether it asks for more than the event's key."""
        return self._files.keys() != {_KEY}

    def candidates(self, key: str, facts: Mapping[str, Value]) -> Iterable[Subscription]:
        """All that the event may concern, in their order, and few others."""
        if not self._files:
            return self._subscriptions
        found = list(self._always)
        for name, filed in self._files.items():
            if name == _KEY:
                found += filed.of(key)
            elif name in facts:
                found += filed.of(facts[name])
            else:
                found += filed.optimistic
        return [self._subscriptions[number] for number in sorted(found)]

    def _add(self, number: int, subscription: Subscription) -> None:
        needed = _needed(subscription.where)
        if needed is None:
            self._always.append(number)
            return
        filed = self._files.setdefault(needed.name, _File())
        filed.add(number, needed)
        if subscription.missing is Missing.OPTIMISTIC:
            filed.optimistic.append(number)


def _needed(predicate: Predicate) -> _Needed | None:
    """What an event must have to match; what the predicate asks of the event's key before what it asks of others."""
    terms = predicate.terms if isinstance(predicate, And) else (predicate,)
    found: list[_Needed] = []
    for term in terms:
        match term:
            case Compare(name, Op.EQ, value):
                found.append(_Needed(name, (value,)))
            case In(name, values):
                found.append(_Needed(name, values))
            case Prefix(name, text):
                found.append(_Needed(name, prefix=text))
    return min(found, key=lambda needed: (needed.name != _KEY, len(needed.values)), default=None)
