"""A subscription: who is told what about which events, how often, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from tidings.notification import Encoding
from tidings.pace import PaceProperty, PaceUnit, pace_properties
from tidings.predicate import Everything, Missing, Predicate, Verdict, judge, render
from tidings.values import Value, digest
from tidings.window import Window


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who is told what about which events, how often, and on which Kafka topic.

    ``fields`` limits what is told and what counts as news; None means every field.

    Its pace is what it asks for by a `PaceProperty`; 0 means that it does not ask for that.

    ``since`` is the version of the control data that brought a subscription of this name; changing it keeps that.
    """

    name: str
    subscriber: str
    broker: str
    topic: str
    deliver: str
    where: Predicate = field(default_factory=Everything)
    missing: Missing = Missing.OPTIMISTIC
    every_ms: Annotated[
        int,
        PaceProperty(
            "At most once in this time for an event.",
            "at least this long between two notifications about an event; the first, and what is owed at its end, do not wait",
        ),
    ] = 0
    fields: frozenset[str] | None = None
    encoding: Encoding = Encoding.JSON
    since: int = 0
    heartbeat_ms: Annotated[
        int,
        PaceProperty(
            "A sign of life this often, also when there is no news.",
            "a `heartbeat` this often: all that was published before its `last_ms`, at whichever broker, has been read. "
            "No heartbeat, no health",
            of_events=False,
        ),
    ] = 0
    settle_ms: Annotated[
        int,
        PaceProperty(
            "Only what has matched WHERE for this long, without a break.",
            "only what has matched `where` for this long without a break; if it stops matching before, nothing is told",
        ),
    ] = 0
    at_most: Annotated[
        int,
        PaceProperty(
            "So many times an hour about a key; the rest as a digest.",
            "at most this many notifications in any hour about a key; the rest is told as one digest when there is a place",
            PaceUnit("time", "times an hour", 3600),
        ),
    ] = 0
    window: Window | None = None
    """Set for one that is told aggregates over windows, and of no single event."""
    interest: str = ""
    """Stands for all that its windows depend on: when that changes, they take it for another subscription."""

    def judge(self, key: str, facts: Mapping[str, Value]) -> Verdict:
        """Whether the event is this subscription's business, as far as it is known. The event key can be asked for as `key`."""
        if isinstance(self.where, Everything):
            return Verdict.MATCHES
        known = dict(facts)
        known["key"] = key
        return judge(self.where, known, self.missing)

    def wants(self, name: str) -> bool:
        return self.fields is None or name in self.fields


PACE_PROPERTIES = pace_properties(Subscription)
"""By name, in the order they are read."""


def interest_of(subscription: Subscription) -> str:
    """The interest of an aggregate subscription; that of others is empty."""
    if subscription.window is None:
        return ""
    asked = subscription.topic, render(subscription.where), subscription.missing, repr(subscription.window)
    return digest(subscription.name, subscription.since, *asked)
