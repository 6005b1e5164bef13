"""The kind `subscription`: who is told what about a topic, how often, and on which Kafka topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidings import names, predicate
from tidings.control.kind import Kind
from tidings.control.kinds.broker import DEFAULT_BROKER, strange_broker
from tidings.control.reader import Reader
from tidings.errors import BadPredicate
from tidings.notification import Encoding
from tidings.subscription import PACE_PROPERTIES, Subscription
from tidings.topic import Timing
from tidings.window import BadWindow, Window, read_window

if TYPE_CHECKING:
    from tidings.control.snapshot import Snapshot

_PACES_OF_EVENTS = [name for name, asked in PACE_PROPERTIES.items() if asked.of_events]


def _read(r: Reader, _defaults: Timing) -> Subscription:
    window = _window(r) if "window" in r.left else None
    subscriber = r.text("subscriber")
    deliver = r.text("deliver", names.notify_topic(subscriber))
    if not names.can_deliver_to(deliver):
        raise r.fail(f"notifications cannot be delivered to the Kafka topic {deliver!r}")
    where = r.left.pop("where", "")
    if not isinstance(where, str):
        raise r.fail(f"'where' must be a string, not {where!r}", "where")
    try:
        parsed = predicate.parse(where)
    except BadPredicate as error:
        detail = f"'where' does not parse: {error.detail} at position {error.position}"
        raise r.fail(detail, "where", position=error.position) from None
    subscription = Subscription(
        name=r.name,
        subscriber=subscriber,
        broker=r.text("broker", DEFAULT_BROKER),
        topic=r.text("topic"),
        deliver=deliver,
        where=parsed,
        missing=r.choice("missing", predicate.Missing, "optimistic"),
        **{name: r.pace(name, asked.counted) for name, asked in PACE_PROPERTIES.items()},
        fields=r.names("fields"),
        encoding=r.choice("encoding", Encoding, "json"),
        window=window,
    )
    r.end()
    return subscription


def _window(r: Reader) -> Window:
    for name in (*_PACES_OF_EVENTS, "fields"):
        if name in r.left:
            # One of the two must go: it is taken to be about the one that stands first.
            first = next(each for each in r.left if each in (name, "window"))
            raise r.fail(f"{name!r} is about single events, and goes with no 'window'", first)
    try:
        return read_window(r.left.pop("window"))
    except BadWindow as error:
        raise r.fail(f"'window': {error.detail}", "window") from None


def _doubts(subscription: Subscription, snapshot: Snapshot) -> Iterator[str]:
    yield from strange_broker(subscription.broker, snapshot)
    # Whoever declares no topic at all is content with the defaults.
    if snapshot.declared and subscription.topic not in snapshot.declared:
        yield f"the topic {subscription.topic!r} is not declared; it has the defaults"


SUBSCRIPTION = Kind(
    "subscription",
    _read,
    subscribes=lambda subscription: (subscription,),
    kafka_topics=lambda subscription: (names.AskedTopic(subscription.deliver, names.DELIVERIES),),
    doubts=_doubts,
)
