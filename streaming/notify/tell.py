"""Who is told what about an event, now: the subscriptions that match, with what each does not know.

What waits, for a cadence, for the event to settle or for a place within the hour, is not kept anywhere: it is worked out anew
from the event when its time has come. So nothing is told that is not true any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from streaming.model.event import OpenEvent
from streaming.model.ledger import Cap, Ledger, Waiting
from tidings import event as events
from tidings.notification import Digested, Notification, Reason, notification_id
from tidings.predicate import Verdict
from tidings.subscription import Subscription
from tidings.topic import Topic
from tidings.values import Value


def tell(
    event: OpenEvent,
    topic: Topic,
    subscriptions: Iterable[Subscription],
    now_ms: int,
    *,
    closing: bool = False,
    caps: dict[str, Cap] | None = None,
) -> list[tuple[Subscription, Notification]]:
    """Tell every one of ``subscriptions`` its news, or note what it waits for. Changes the event's ledgers, and the ``caps``.

    At the end of the window nothing waits for a cadence: it would never be told. What has not settled by then never will.
    """
    told: list[tuple[Subscription, Notification]] = []
    if not subscriptions:
        return told
    facts = events.facts(event.knowledge)
    complete = event.is_complete(topic)
    for subscription in subscriptions:
        if subscription.judge(event.at.key, facts) is not Verdict.MATCHES:
            continue
        ledger = event.ledgers.get(subscription.name) or Ledger()
        news = ledger.untold(subscription, facts)
        if not news:
            continue
        event.ledgers[subscription.name] = ledger
        allowed_ms = 0 if closing else ledger.may_be_told_ms(subscription)
        if subscription.settle_ms and topic.gather:  # a measurement is over when it comes: it cannot settle
            allowed_ms = max(allowed_ms, ledger.settled_ms(subscription, now_ms))
        if now_ms < allowed_ms:
            ledger.due_ms = allowed_ms
            continue
        if subscription.at_most and caps is not None and not _takes_place(event, ledger, caps, subscription, now_ms):
            continue
        reason = _reason(ledger, complete=complete, closing=closing)
        ledger.note(news, now_ms, complete=complete)
        told.append((subscription, notification_of(event, subscription, ledger.revision, reason, news)))
    return told


def _takes_place(event: OpenEvent, ledger: Ledger, caps: dict[str, Cap], subscription: Subscription, now_ms: int) -> bool:
    """Take a place among those of the hour, or wait for one."""
    cap = caps.setdefault(subscription.name, Cap(event.at.key))
    if now_ms < cap.free_ms(subscription.at_most):
        ledger.capped = True
        ledger.due_ms = None
        cap.wait(subscription.at_most, now_ms)
        return False
    cap.note(now_ms)
    return True


def watch(event: OpenEvent, subscriptions: Iterable[Subscription], now_ms: int) -> Counter[str]:
    """Note for each subscription since when the event has matched. Returns what was cancelled, because it matches no longer."""
    facts = events.facts(event.knowledge)
    cancelled: Counter[str] = Counter()
    for subscription in subscriptions:
        ledger = event.ledgers.get(subscription.name)
        if subscription.judge(event.at.key, facts) is Verdict.MATCHES:
            if ledger is None:
                ledger = event.ledgers[subscription.name] = Ledger()
            ledger.settled_ms(subscription, now_ms)
        elif ledger is not None and ledger.true_ms is not None:
            if ledger.due_ms is not None:
                settled = now_ms >= ledger.settled_ms(subscription, now_ms)
                cancelled[Waiting.EVERY if settled else Waiting.SETTLE] += 1
            ledger.due_ms = ledger.true_ms = None
    return cancelled


def unmet(event: OpenEvent, subscription: Subscription, now_ms: int) -> Waiting | None:
    """Why something that waited is not told, now that it could be. None if there is nothing to tell."""
    ledger, facts = event.ledgers[subscription.name], events.facts(event.knowledge)
    if subscription.judge(event.at.key, facts) is not Verdict.MATCHES:
        return Waiting.AT_MOST if ledger.capped else Waiting.EVERY
    if not ledger.untold(subscription, facts):
        return None
    return Waiting.SETTLE if subscription.settle_ms and now_ms < ledger.settled_ms(subscription, now_ms) else None


def owed(event: OpenEvent, subscription: Subscription) -> Digested | None:
    """What an event owes a subscription, if it matches: the news of a digest."""
    facts = events.facts(event.knowledge)
    if subscription.judge(event.at.key, facts) is not Verdict.MATCHES:
        return None
    news = event.ledgers[subscription.name].untold(subscription, facts)
    return Digested(event.id, news, event.span.first_ms, event.span.last_ms) if news else None


def _reason(ledger: Ledger, *, complete: bool, closing: bool) -> Reason:
    if closing:
        return Reason.FINAL
    if ledger.capped:
        return Reason.DIGEST
    if complete and not ledger.told_complete:
        return Reason.COMPLETE
    return Reason.NEWS if ledger.revision else Reason.FIRST


def notification_of(
    event: OpenEvent,
    subscription: Subscription,
    revision: int,
    reason: Reason,
    news: dict[str, Value],
    digest: tuple[Digested, ...] = (),
) -> Notification:
    """What a subscription is told about an open event."""
    conflicts = events.conflicts(event.knowledge)
    return Notification(
        id=notification_id(subscription.name, subscription.since, event.opening, revision),
        subscriber=subscription.subscriber,
        subscription=subscription.name,
        topic=event.at.topic,
        key=event.at.key,
        event=event.id,
        revision=revision,
        reason=reason,
        news=news,
        reports=event.all_reports,
        sources=event.all_sources,
        first_ms=event.span.first_ms,
        last_ms=event.span.last_ms,
        conflicts={name: values for name, values in conflicts.items() if subscription.wants(name)},
        digest=digest,
    )
