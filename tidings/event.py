"""An event: what all reports about it, taken together, say.

An event is a map of registers, so it is a join-semilattice itself. A message is *redundant* exactly when joining it changes
none of the event's facts: that covers exact repeats and facts that others already told in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidings import registers
from tidings.message import Message
from tidings.registers import Bounds, Join, Register
from tidings.topic import Topic
from tidings.values import Value, same

Knowledge: TypeAlias = Mapping[str, Register]
"""Field name to register. A field that nobody stated is not there."""


@dataclass(frozen=True, slots=True)
class Added:
    """What joining a report changed: the fields with another value to tell, and those where only the dispute grew."""

    news: frozenset[str]
    disputed: frozenset[str]
    conflicts: int = 0
    """How many more values are now known to disagree."""

    @property
    def is_redundant(self) -> bool:
        return not self.news and not self.disputed


def report(message: Message, published_ms: int, topic: Topic, bounds: Bounds) -> dict[str, Register]:
    """The event as this one message alone would have it."""
    message_id = message.message_id
    return {
        name: registers.state(topic.join_of(name), value, published_ms, message_id, message.source, bounds)
        for name, value in message.fields.items()
    }


def join(a: Knowledge, b: Knowledge, bounds: Bounds) -> dict[str, Register]:
    """What both know together."""
    joined = dict(a)
    for name, register in b.items():
        joined[name] = registers.join(joined[name], register, bounds) if name in joined else register
    return joined


def added(before: Knowledge, after: Knowledge) -> Added:
    """What became of an event between two states of knowledge."""
    news, disputed = set(), set()
    conflicts = 0
    for name, register in after.items():
        old = before.get(name)
        if old is register:
            continue
        conflicts += max(0, len(register.disagreeing) - len(old.disagreeing if old else ()))
        if old is None or old.facts[0] != register.facts[0]:
            news.add(name)
        elif old.facts != register.facts:
            disputed.add(name)
    return Added(frozenset(news), frozenset(disputed), conflicts)


def left_out(report: Knowledge, joined: Knowledge) -> Iterator[str]:
    """The bounds that kept something out of what a report said: one for each value left out."""
    for name, register in report.items():
        kept, bound = joined[name], register.kind.bound
        if bound is None or kept is register:
            continue
        for claim in register.claims:
            if not any(same(known.value, claim.value) for known in kept.claims):
                yield bound


def facts(knowledge: Knowledge) -> dict[str, Value]:
    """Field to the value that is told."""
    union = Join.UNION
    return {name: r.value if r.kind is union else r.claims[0].value for name, r in knowledge.items()}
