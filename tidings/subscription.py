"""A subscription: who is told what about which events, how often, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.notification import Encoding
from tidings.predicate import Everything, Missing, Predicate, Verdict, judge, render
from tidings.values import Value, digest
from tidings.window import Window


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who is told what about which events, how often, and on which Kafka topic.

    ``fields`` limits what is told and what counts as news; None means every field.

    Its pace: notifications about an event are ``every_ms`` apart; it is told only of what has matched for ``settle_ms``; and
    ``at_most`` so many times an hour about a key. 0 means that it does not ask for that. Every ``heartbeat_ms`` it hears that
    all is well.

    ``since`` is the version of the control data that brought a subscription of this name; changing it keeps that.
    """

    name: str
    subscriber: str
    broker: str
    topic: str
    deliver: str
    where: Predicate = field(default_factory=Everything)
    missing: Missing = Missing.OPTIMISTIC
    every_ms: int = 0
    fields: frozenset[str] | None = None
    encoding: Encoding = Encoding.JSON
    since: int = 0
    heartbeat_ms: int = 0
    settle_ms: int = 0
    at_most: int = 0
    window: Window | None = None
    """Set for one that is told aggregates over windows, and of no single event."""
    interest: str = ""
    """Stands for all that its windows depend on: when that changes, they take it for another subscription."""

    def judge(self, key: str, facts: Mapping[str, Value]) -> Verdict:
        """Whether the event is this subscription's business, as far as it is known. The event key can be asked for as `key`."""
        if isinstance(self.where, Everything):
            return Verdict.MATCHES
        return judge(self.where, {**facts, "key": key}, self.missing)

    def wants(self, name: str) -> bool:
        return self.fields is None or name in self.fields


def interest_of(subscription: Subscription) -> str:
    """The interest of an aggregate subscription; that of others is empty."""
    if subscription.window is None:
        return ""
    asked = subscription.topic, render(subscription.where), subscription.missing, repr(subscription.window)
    return digest(subscription.name, subscription.since, *asked)
