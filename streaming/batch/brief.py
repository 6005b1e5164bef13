"""A slot of the usual kind as it is kept: one open event that nobody beyond its broker knows of, in few words.

The same as a packed `Slot`, with nothing said twice: a report is named once for all that it stated, and of a ledger only what
does not follow from the facts. It is half as long, and read and written in a few microseconds without an object for each
claim. What is not of that kind is kept as `pack_slot` packs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from streaming.batch.columns import Ends
from streaming.broker.state import Slot
from streaming.model.address import Address
from streaming.model.entry import Origin
from streaming.model.event import Elsewhere, OpenEvent, Span
from streaming.model.ledger import Ledger
from tidings.registers import Claim, Join, Register
from tidings.topic import Timing
from tidings.values import Value, fact_digest

Said: TypeAlias = tuple[int, str, str | None]
"""Of a report that somebody believes: when it was published, its id, and its source. They are in that order in a `Claim`."""

BRIEF_KINDS = frozenset({Join.FIRST, Join.MIN, Join.MAX})
"""Registers of which a repeat that is no earlier changes nothing, and one claim is what is told."""
_NOWHERE_ELSE = Elsewhere()


class BriefLedger(Struct, array_like=True, gc=False):
    """What a subscription was told."""

    revision: int
    told_ms: int
    complete: bool
    due_ms: int | None
    told: list[str] | None
    """The fields of which it knows what is known; None if that is all of them."""


class Brief(Struct, array_like=True, gc=False):
    """The event, and where it is."""

    at: Address
    id: str
    opened_ms: int
    origin: Origin
    first_ms: int
    last_ms: int
    news_ms: int
    reports: int = 0
    sources: int = 0
    facts: dict[str, Value] = {}
    claims: list[int] = []
    """Of each fact, in this order, the number in ``said``."""
    said: list[Said] = []
    rivals: dict[str, list[tuple[Value, int]]] = {}
    """Of a field that is in dispute, the values that lost, the earliest first; each with the number in ``said``."""
    kinds: dict[str, Join] = {}
    """Of fields that do not keep the first value."""
    ledgers: dict[str, BriefLedger] = {}
    held: int = 0
    held_fields: list[str] = []
    release_ms: int | None = None
    released: bool = False

    def timers(self, timing: Timing) -> tuple[int, Ends]:
        """`OpenEvent.next_ms`, and `streaming.batch.memory.end_of`."""
        next_ms = max(self.origin.append_ms + timing.window_ms, self.opened_ms)
        release_ms = self.release_ms
        waits = self.held or release_ms is not None or not (self.released or not self.facts)
        due = [ledger.due_ms for ledger in self.ledgers.values() if ledger.due_ms is not None]
        if timing.remember_ms < timing.window_ms:
            next_ms = min(next_ms, max(self.news_ms + timing.remember_ms, release_ms or 0, *due))
        if due:
            next_ms = min(next_ms, *due)
        if release_ms is not None and release_ms < next_ms:
            next_ms = release_ms
        return next_ms, Ends.LOUDLY if waits or due else Ends.QUIETLY


_FIRST_BYTE = msgspec.msgpack.encode([None] * len(Brief.__struct_fields__))[:1]
"""Of a list as long as that. No other form of a slot begins with it."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Brief).decode


def is_brief(kept: bytes) -> bool:
    return kept[:1] == _FIRST_BYTE


def write_brief(brief: Brief) -> bytes:
    return _encode(brief)


def read_brief(kept: bytes) -> Brief:
    return _decode(kept)


def expanded(brief: Brief) -> tuple[Address, Slot]:
    """The slot."""
    facts, said, kinds = brief.facts, brief.said, brief.kinds
    knowledge = {}
    for (name, value), number in zip(facts.items(), brief.claims, strict=True):
        claims = (Claim(value, *said[number]), *(Claim(rival, *said[by]) for rival, by in brief.rivals.get(name, ())))
        knowledge[name] = Register(kinds.get(name, Join.FIRST), claims)
    event = OpenEvent(
        *(brief.id, brief.at, brief.id, brief.opened_ms, Span(brief.first_ms, brief.last_ms), brief.news_ms, knowledge),
        *(brief.reports, set(), brief.sources, brief.held, set(brief.held_fields), brief.release_ms, brief.released),
        {name: _ledger(ledger, facts) for name, ledger in brief.ledgers.items()},
        first=brief.origin,
    )
    return brief.at, Slot([event])


def _ledger(brief: BriefLedger, facts: Mapping[str, Value]) -> Ledger:
    told = {name: fact_digest(facts[name]) for name in (facts if brief.told is None else brief.told)}
    return Ledger(told, brief.revision, brief.told_ms, brief.complete, brief.due_ms)


def brief_of(at: Address, slot: Slot) -> Brief | None:
    """The slot in few words; None if it is not of that kind."""
    if slot.closed or slot.seen or slot.caps or slot.spread or slot.ahead or len(slot.open) != 1:
        return None
    (event,) = slot.open
    elsewhere = event.links or event.kept or event.owed or event.ended_ms is not None or event.wait_ms
    if elsewhere or event.elsewhere != _NOWHERE_ELSE or event.id != event.opening or event.first is None or event.sources:
        return None
    numbers: dict[Said, int] = {}
    facts: dict[str, Value] = {}
    claims: list[int] = []
    rivals: dict[str, list[tuple[Value, int]]] = {}
    kinds: dict[str, Join] = {}
    for name, register in event.knowledge.items():
        if register.kind not in BRIEF_KINDS:
            return None
        believed, *lost = ((claim.value, _number(claim, numbers)) for claim in register.claims)
        facts[name] = believed[0]
        claims.append(believed[1])
        if lost:
            rivals[name] = lost
        if register.kind is not Join.FIRST:
            kinds[name] = register.kind
    ledgers = {}
    for name, ledger in event.ledgers.items():
        if (found := _brief_ledger(ledger, facts)) is None:
            return None
        ledgers[name] = found
    return Brief(
        at,
        event.id,
        event.opened_ms,
        event.first,
        event.span.first_ms,
        event.span.last_ms,
        event.news_ms,
        event.reports,
        event.source_count,
        facts,
        claims,
        list(numbers),
        rivals,
        kinds,
        ledgers,
        event.held,
        sorted(event.held_fields),
        event.release_ms,
        event.released,
    )


def _number(claim: Claim, numbers: dict[Said, int]) -> int:
    return numbers.setdefault((claim.published_ms, claim.message_id, claim.source), len(numbers))


def _brief_ledger(ledger: Ledger, facts: Mapping[str, Value]) -> BriefLedger | None:
    if ledger.true_ms is not None or ledger.capped or ledger.untrue:
        return None
    for name, known in ledger.told.items():
        if name not in facts or fact_digest(facts[name]) != known:
            return None
    told = None if len(ledger.told) == len(facts) else sorted(ledger.told)
    return BriefLedger(ledger.revision, ledger.told_ms, ledger.told_complete, ledger.due_ms, told)
