"""Field registers: how the reports about one field become one value.

A register is a join-semilattice: `join` is commutative, associative and idempotent, so the order, repetition and path of
reports do not change what a field becomes. Each register keeps *claims*: a value, and who said it when.

`first` also keeps the values that lost, up to a bound, because people who disagree should not be silenced. The bound keeps the
earliest claims; a set of the k smallest is itself a semilattice, so the bound does not break the laws. `union` is bounded the
same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from msgspec import Struct

from tidings.values import SortKey, Value, plain, same, sort_key


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one register may keep."""

    conflicts: int = 8
    union_items: int = 64


class Join(StrEnum):
    """Which value of a field is told when reports differ.

    A kind says of itself what has to be known to count reports without opening them. What it does not say is the careful answer.
    """

    repeats_matter: bool
    """Whether a fact that was stated before, stated again and later, can change what is known."""
    bound: str | None
    """The bound that says how much a register of this kind keeps, by its name in `Bounds`."""
    besides: int
    """How many claims it keeps beside those that the bound counts."""

    def __new__(cls, word: str, repeats_matter: bool = True, bound: str | None = None, besides: int = 0) -> Self:
        kind = str.__new__(cls, word)
        kind._value_ = word
        kind.repeats_matter, kind.bound, kind.besides = repeats_matter, bound, besides
        return kind

    FIRST = "first", False, "conflicts", 1
    """That of the earliest claim, by published time, then message id. The values that lost are kept, up to `limits.conflicts`."""
    LAST = "last", True
    """That of the latest claim."""
    MIN = "min", False
    """The smallest."""
    MAX = "max", False
    """The largest."""
    UNION = "union", False, "union_items"
    """All elements, sorted, up to `limits.union_items`."""

    def room(self, bounds: Bounds) -> int | None:
        """How many claims a register of this kind keeps at most; None for one that always keeps one."""
        return None if self.bound is None else getattr(bounds, self.bound) + self.besides


class Claim(Struct, frozen=True, array_like=True, gc=False):
    """A value, and who said it when. For `union`, one claim is one element."""

    value: Value
    published_ms: int
    message_id: str
    source: str | None = None


class Register(Struct, frozen=True, array_like=True):
    """What is known of one field. ``claims`` is in the register's canonical order, so equal knowledge is equal data."""

    kind: Join
    claims: tuple[Claim, ...]

    @property
    def value(self) -> Value:
        """The value that is told."""
        if self.kind is Join.UNION:
            return tuple(str(claim.value) for claim in self.claims)
        return self.claims[0].value

    @property
    def disagreeing(self) -> tuple[Value, ...]:
        """The values that lost."""
        return tuple(claim.value for claim in self.claims[1:]) if self.kind is Join.FIRST else ()

    @property
    def is_disputed(self) -> bool:
        """Whether there are such values."""
        return len(self.claims) > 1 and self.kind is Join.FIRST

    @property
    def facts(self) -> tuple[SortKey, tuple[SortKey, ...]]:
        """What the register says, without who said it when: two registers with equal facts tell and dispute the same."""
        return sort_key(self.value), tuple(sorted(sort_key(value) for value in self.disagreeing))

    def is_full(self, bounds: Bounds) -> bool:
        """Whether a value could be left out of it: then even a report that was known before is counted by opening it."""
        room = self.kind.room(bounds)
        return room is not None and len(self.claims) >= room


def state(kind: Join, value: Value, published_ms: int, message_id: str, source: str | None, bounds: Bounds) -> Register:
    """The register of one report."""
    if kind is not Join.UNION:
        return Register(kind, (Claim(value, published_ms, message_id, source),))
    claims = (Claim(item, published_ms, message_id, source) for item in _elements(value))
    return Register(kind, _smallest_elements(claims, bounds))


def join(a: Register, b: Register, bounds: Bounds) -> Register:
    """The least register that knows what both know. The kind is the left one's: a field keeps it while its event is open."""
    if a.kind is Join.FIRST and len(b.claims) == 1 and _knows(a, b.claims[0]):
        return a
    claims = a.claims + b.claims
    match a.kind:
        case Join.FIRST:
            kept = sorted(_earliest_per_value(claims), key=_age)[: bounds.conflicts + 1]
            return Register(a.kind, tuple(kept))
        case Join.LAST:
            return Register(a.kind, (max(claims, key=_age),))
        case Join.MIN:
            return Register(a.kind, (min(claims, key=lambda claim: (sort_key(claim.value), _age(claim))),))
        case Join.MAX:
            top = max(sort_key(claim.value) for claim in claims)
            return Register(a.kind, (min((c for c in claims if sort_key(c.value) == top), key=_age),))
        case Join.UNION:
            return Register(a.kind, _smallest_elements(claims, bounds))


def _knows(register: Register, claim: Claim) -> bool:
    """Whether a claim of the same value is there that is no younger. Most reports only repeat what is known."""
    for known in register.claims:
        if same(known.value, claim.value):
            return known.published_ms < claim.published_ms or _age(known) <= _age(claim)
    return False


def _age(claim: Claim) -> tuple[int, str, SortKey, str, str]:
    """Published time, then message id; the rest only breaks ties between reports that wrongly share an id."""
    return (
        claim.published_ms,
        claim.message_id,
        sort_key(claim.value),
        claim.source or "",
        type(claim.value).__name__,
    )


def _earliest_per_value(claims: Iterable[Claim]) -> list[Claim]:
    earliest: dict[SortKey, Claim] = {}
    for claim in claims:
        fact = sort_key(claim.value)
        if fact not in earliest or _age(claim) < _age(earliest[fact]):
            earliest[fact] = claim
    return list(earliest.values())


def _smallest_elements(claims: Iterable[Claim], bounds: Bounds) -> tuple[Claim, ...]:
    kept = sorted(_earliest_per_value(claims), key=lambda claim: sort_key(claim.value))
    return tuple(kept[: bounds.union_items])


def _elements(value: Value) -> tuple[str, ...]:
    """What a report adds to a `union` field: a list adds its items, a single value itself, empty nothing."""
    if value is None:
        return ()
    if isinstance(value, tuple):
        return value
    if isinstance(value, bool):
        return ("true" if value else "false",)
    return (str(plain(value)),)
