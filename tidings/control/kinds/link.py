"""The kind `link`: which brokers are neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from tidings import names
from tidings.control.kind import Kind
from tidings.control.reader import Reader
from tidings.topic import Deciding, Timing


@dataclass(frozen=True)
class Link:
    """A link between two brokers, and the topics that may not cross it."""

    name: str
    a: str
    b: str
    cost: float = 1
    forbid: frozenset[str] = frozenset()
    decider: Deciding | None = None
    """For all windows that cross it; None leaves it to their topics."""


def _read(r: Reader, _defaults: Timing) -> Link:
    a, b = r.text("a"), r.text("b")
    if a == b:
        raise r.fail("a link joins two different brokers", "a")
    cost = r.left.pop("cost", 1)
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < float("inf"):
        raise r.fail(f"'cost' must be a number from 0 up, not {cost!r}", "cost")
    forbid = r.names("forbid") or frozenset()
    decider = r.choice("decider", Deciding, "") if "decider" in r.left else None
    r.end()
    return Link(r.name, a, b, cost, forbid, decider)


def _kafka_topics(link: Link) -> list[names.AskedTopic]:
    """One for each direction."""
    return [names.AskedTopic(names.link_topic(*ends), names.LINKS) for ends in ((link.a, link.b), (link.b, link.a))]


LINK = Kind("link", _read, kafka_topics=_kafka_topics)
