"""What a subscription is told of an event, written at once: nobody has to keep it until the batch ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.model.address import Address
from streaming.model.outputs import WrittenTell
from streaming.wire.notification import Usual, encode_usual
from tidings import names
from tidings.notification import Reason, notification_id
from tidings.subscription import Subscription
from tidings.values import Value


def wanted(subscription: Subscription, facts: Mapping[str, Value], news: Iterable[str]) -> dict[str, Value]:
    """What the subscription is told of the news, in the order of the wire."""
    fields = subscription.fields
    return {name: facts[name] for name in sorted(news) if fields is None or name in fields}


def told(
    subscription: Subscription,
    at: Address,
    event: str,
    opening: str,
    revision: int,
    reason: Reason,
    news: dict[str, Value],
    counts: tuple[int, int, int, int],
    conflicts: dict[str, tuple[Value, ...]],
    now_ms: int,
) -> WrittenTell:
    """`streaming.notify.tell.notification_of` as bytes. ``news`` and ``conflicts`` are in the order of the wire; ``counts`` are
    reports, sources, and the first and the last published time."""
    notification = Usual(
        notification_id(subscription.name, subscription.since, opening, revision),
        *(subscription.subscriber, subscription.name, at.topic, at.key, event, revision, reason, news, *counts, conflicts),
    )
    value = encode_usual(notification, subscription.encoding)
    return WrittenTell(subscription.deliver, names.record_key(at.topic, at.key), value, now_ms)
