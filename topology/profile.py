"""What the subscribers beyond a link want of one event topic, as small as it can be said.

A broker hands each neighbour a profile: the most general set of the predicates of all who are reached through it (DAS: profile
forwarding). The neighbour sends what matches, and only the fields that are wanted. A profile may match too much, never too
little: whatever is known of an event, if a subscription beyond the link matches, its profile does.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

from tidings.predicate import And, Compare, Everything, In, Missing, Op, Predicate, Verdict, fields_of, judge
from tidings.subscription import Subscription
from tidings.values import SortKey, Value, sort_key
from topology.covering import Interest, Scope, encloses, joined, lie_in, one_of, scope_of

MOST_ENTRIES: Final = 256
MOST_BOXES: Final = 512
"""What needs more entries, or entries that come apart into more boxes, is sent all there is: comparing them takes the square
of this, and a message as many judgements."""

KEY: Final = "key"

Fields: TypeAlias = frozenset[str] | None
"""None is every field."""

_ANYTHING = Interest(Everything(), Missing.OPTIMISTIC)


@dataclass(frozen=True, slots=True)
class _Asked:
    """An entry, made quick to ask: its lists as sets, so that a thousand keys take no longer than one."""

    lists: tuple[tuple[str, frozenset[SortKey]], ...]
    rest: Predicate
    missing: Missing

    def matches(self, facts: Mapping[str, Value]) -> bool:
        """A conjunction matches if each of its terms does, whatever `missing` says."""
        for name, wanted in self.lists:
            if name not in facts:
                if self.missing is Missing.PATIENT:
                    return False
            elif sort_key(facts[name]) not in wanted:
                return False
        return isinstance(self.rest, Everything) or judge(self.rest, facts, self.missing) is Verdict.MATCHES


def _asked(entry: Interest) -> _Asked:
    lists: list[tuple[str, frozenset[SortKey]]] = []
    rest: list[Predicate] = []
    for term in entry.where.terms if isinstance(entry.where, And) else (entry.where,):
        match term:
            case Compare(name, Op.EQ, value):
                lists.append((name, frozenset({sort_key(value)})))
            case In(name, values):
                lists.append((name, frozenset(map(sort_key, values))))
            case _:
                rest.append(term)
    return _Asked(tuple(lists), And(tuple(rest)) if len(rest) > 1 else rest[0] if rest else Everything(), entry.missing)


@dataclass(frozen=True, slots=True)
class Profile:
    """What is wanted beyond a link: ``entries`` in canonical order, none covering another, and the ``fields`` that the far end
    needs, to tell or to judge by.

    The event's key goes with every event, so predicates that ask for it do not make it a field.
    """

    entries: tuple[Interest, ...]
    fields: Fields
    _asked: tuple[_Asked, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_asked", tuple(map(_asked, self.entries)))

    def __bool__(self) -> bool:
        """Whether anybody is there."""
        return bool(self.entries)

    def matches(self, key: str, facts: Mapping[str, Value]) -> bool:
        """Whether somebody may want the event, by what is known of it."""
        if not self.entries or isinstance(self.entries[0].where, Everything):
            return bool(self.entries)
        known = {**facts, KEY: key}
        return any(asked.matches(known) for asked in self._asked)

    def wants(self, name: str) -> bool:
        return self.fields is None or name in self.fields

    def covers(self, other: Profile) -> bool:
        """Whether nothing changes for this profile when the other is added. A yes is certain; a no can be careful."""
        if self.fields is not None and (other.fields is None or not other.fields <= self.fields):
            return False
        mine = [scope_of(entry) for entry in self.entries]
        boxes = [box for scope in mine for box in scope.boxes or ()]
        return all(
            any(encloses(scope, theirs) for scope in mine) or (theirs.boxes is not None and lie_in(theirs.boxes, boxes))
            for theirs in map(scope_of, other.entries)
        )


NOBODY: Final = Profile((), frozenset())
EVERYTHING: Final = Profile((_ANYTHING,), None)


def profile_of(subscriptions: Iterable[Subscription]) -> Profile:
    """The profile of subscriptions to one topic. One that can never match wants nothing."""
    wanted: dict[Interest, set[Fields]] = {}
    for subscription in subscriptions:
        wanted.setdefault(Interest(subscription.where, subscription.missing), set()).add(subscription.fields)
    scopes = [scope_of(entry) for entry in wanted]
    asked = [frozenset(fields_of(scope.entry.where) - {KEY}) for scope in scopes if scope.boxes != ()]
    told = chain.from_iterable(wanted[scope.entry] for scope in scopes if scope.boxes != ())
    return Profile(_most_general(scopes), _all_fields([*told, *asked]))


def united(profiles: Iterable[Profile]) -> Profile:
    """The profile of all who have one of these."""
    somebody = [profile for profile in profiles if profile]
    entries = set(chain.from_iterable(profile.entries for profile in somebody))
    return Profile(_most_general(map(scope_of, entries)), _all_fields([profile.fields for profile in somebody]))


def _all_fields(wishes: Collection[Fields]) -> Fields:
    return None if None in wishes else frozenset().union(*[wish for wish in wishes if wish])


def _most_general(scopes: Iterable[Scope]) -> tuple[Interest, ...]:
    """The fewest entries we find for what the scopes match. Sorted first, so the order they come in does not matter."""
    left = sorted({scope.entry: scope for scope in map(_settled, scopes) if scope.boxes != ()}.values(), key=Scope.order)
    before = len(left) + 1
    while len(left) < before:
        before = len(left)
        left = _paired(_grouped(left))
    return tuple([scope.entry for scope in left])


def _settled(scope: Scope) -> Scope:
    """One writing for what asks for the key alone, which is never unknown, and for what always matches."""
    if scope.entry.missing is Missing.PATIENT and fields_of(scope.entry.where) <= {KEY}:
        scope = scope_of(Interest(scope.entry.where, Missing.OPTIMISTIC))
    return scope_of(_ANYTHING) if scope.boxes == ({},) else scope


def _grouped(scopes: list[Scope]) -> list[Scope]:
    """Join at once all that differ in one field only: a thousand keys are one list, and need not be compared by twos."""
    shared = Counter(asked for scope in scopes for asked in scope.box or ())
    for name in sorted([asked for asked, count in shared.items() if count > 1 and isinstance(asked, str)]):
        groups: dict[Hashable, list[Scope]] = {}
        for scope in scopes:
            groups.setdefault(_shape_beside(scope, name), []).append(scope)
        fewer = list(chain.from_iterable(_fewer(name, group) for group in groups.values()))
        if len(fewer) < len(scopes):
            scopes = sorted(fewer, key=Scope.order)
    return scopes


def _shape_beside(scope: Scope, name: str) -> Hashable:
    """All that a scope asks but for one field; the scope itself if it does not ask for that."""
    if scope.box is None or name not in scope.box:
        return id(scope)
    return scope.entry.missing, frozenset([part for part in scope.box.items() if part[0] != name])


def _fewer(name: str, group: list[Scope]) -> list[Scope]:
    entries = joined(name, group) if len(group) > 1 else None
    return group if entries is None or len(entries) >= len(group) else [_settled(scope_of(entry)) for entry in entries]


def _paired(scopes: list[Scope]) -> list[Scope]:
    """Compare each with each until none covers another and no two can be merged, or until there are too many."""
    kept: list[Scope] = []
    waiting = sorted(scopes, key=_narrowness, reverse=True)
    while waiting:
        scope = waiting.pop()
        for place, other in enumerate(kept):
            first, second = sorted((scope, other), key=Scope.order)
            if (entry := one_of(first, second)) is not None:
                del kept[place]
                waiting.append(scope if entry is scope.entry else other if entry is other.entry else _settled(scope_of(entry)))
                break
        else:
            kept.append(scope)
            if len(kept) > MOST_ENTRIES or sum([len(one.boxes) for one in kept if one.boxes]) > MOST_BOXES:
                return [scope_of(_ANYTHING)]
    return sorted(kept, key=Scope.order)


def _narrowness(scope: Scope) -> tuple[int, tuple[str, str]]:
    """An entry that asks little covers much. It comes first, so that fewer have to be kept meanwhile."""
    return min(map(len, scope.boxes)) if scope.boxes else sys.maxsize, scope.order()
