"""A digest: one notification for all that waited because a subscription is told of a key only so many times an hour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from streaming.model.event import OpenEvent
from streaming.model.ledger import Cap
from streaming.notify.pace.pace import Telling
from streaming.notify.tell import Quiet, digested, news_for, notification_of
from tidings import event as events
from tidings.notification import Digested, Notification, Reason, digest_id
from tidings.subscription import Subscription
from tidings.topic import Topic


@dataclass(frozen=True, slots=True)
class Digest:
    """The notification, if there is anything to tell; the open events it is about; and how many had turned untrue."""

    notification: Notification | None
    told: tuple[tuple[OpenEvent, Digested], ...] = ()
    cancelled: int = 0


def digest(waiting: Iterable[OpenEvent], subscription: Subscription, cap: Cap, topic: Topic, now_ms: int) -> Digest:
    """Tell all that waits, as it is now. What its own cadence still keeps back is told in its turn."""
    telling = Telling(cap.key, now_ms)  # the place is free, and one is enough for all
    ready: list[tuple[OpenEvent, Digested]] = []
    cancelled = 0
    for event in waiting:
        event.ledgers[subscription.name].capped = False
        news = news_for(event, subscription, events.facts(event.knowledge), telling)
        cancelled += news is Quiet.DIFFERS
        if not isinstance(news, Quiet):
            ready.append((event, digested(event, news)))
    ended = _still_wanted(subscription, cap.ended)
    cap.ended = []
    if not ready and not ended:
        return Digest(None, cancelled=cancelled)
    for event, owed in ready:
        event.ledgers[subscription.name].note(owed.news, now_ms, complete=event.is_complete(topic))
    cap.note(now_ms)
    return Digest(_notification(cap.key, ready, ended, subscription, now_ms), tuple(ready), cancelled)


def _still_wanted(subscription: Subscription, ended: Sequence[Digested]) -> list[Digested]:
    """The subscription may want other fields by now."""
    news = ({name: value for name, value in each.news.items() if subscription.wants(name)} for each in ended)
    return [replace(each, news=wanted) for each, wanted in zip(ended, news, strict=True) if wanted]


def _notification(
    key: str,
    ready: Sequence[tuple[OpenEvent, Digested]],
    ended: Sequence[Digested],
    subscription: Subscription,
    now_ms: int,
) -> Notification:
    """It is about the newest open event, and beside it about the others: first those that have ended."""
    if ready:
        event, news = ready[-1]
        beside = (*ended, *(other for _, other in ready[:-1]))
        revision = event.ledgers[subscription.name].revision
        return notification_of(event, subscription, revision, Reason.DIGEST, dict(news.news), beside)
    return Notification(
        id=digest_id(subscription.name, subscription.since, subscription.topic, key, now_ms),
        subscriber=subscription.subscriber,
        subscription=subscription.name,
        topic=subscription.topic,
        key=key,
        event="",
        revision=0,
        reason=Reason.DIGEST,
        news={},
        reports=0,
        sources=0,
        first_ms=min(each.first_ms for each in ended),
        last_ms=max(each.last_ms for each in ended),
        digest=tuple(ended),
    )
