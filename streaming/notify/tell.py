"""Who is told what about an event, now: the subscriptions that match, with what each does not know."""

from __future__ import annotations

from collections.abc import Iterable

from streaming.gather.ledger import Ledger
from streaming.gather.open_event import OpenEvent
from tidings import event as events
from tidings.notification import Notification, Reason, notification_id
from tidings.predicate import Verdict
from tidings.subscription import Subscription
from tidings.topic import Topic
from tidings.values import Value


def tell(
    event: OpenEvent, topic: Topic, subscriptions: Iterable[Subscription], now_ms: int, *, closing: bool = False
) -> list[tuple[Subscription, Notification]]:
    """Tell every one of ``subscriptions`` its news, or note when its cadence allows it. Changes the event's ledgers.

    At the end of the window nothing waits for a cadence: it would never be told.
    """
    facts = events.facts(event.knowledge)
    complete = event.is_complete(topic)
    told = []
    for subscription in subscriptions:
        if subscription.judge(event.at[2], facts) is not Verdict.MATCHES:
            continue
        ledger = event.ledgers.get(subscription.name) or Ledger()
        news = ledger.untold(subscription, facts)
        if not news:
            continue
        event.ledgers[subscription.name] = ledger
        allowed_ms = ledger.may_be_told_ms(subscription)
        if not closing and now_ms < allowed_ms:
            ledger.due_ms = allowed_ms
            continue
        reason = _reason(ledger, complete=complete, closing=closing)
        ledger.note(news, now_ms, complete=complete)
        told.append((subscription, _notification(event, subscription, ledger.revision, reason, news)))
    return told


def _reason(ledger: Ledger, *, complete: bool, closing: bool) -> Reason:
    if closing:
        return Reason.FINAL
    if complete and not ledger.told_complete:
        return Reason.COMPLETE
    return Reason.NEWS if ledger.revision else Reason.FIRST


def _notification(
    event: OpenEvent, subscription: Subscription, revision: int, reason: Reason, news: dict[str, Value]
) -> Notification:
    conflicts = events.conflicts(event.knowledge)
    return Notification(
        id=notification_id(subscription.name, subscription.since, event.opening, revision),
        subscriber=subscription.subscriber,
        subscription=subscription.name,
        topic=event.at[1],
        key=event.at[2],
        event=event.id,
        revision=revision,
        reason=reason,
        news=news,
        reports=event.all_reports,
        sources=event.all_sources,
        first_ms=event.span.first_ms,
        last_ms=event.span.last_ms,
        conflicts={name: values for name, values in conflicts.items() if subscription.wants(name)},
    )
