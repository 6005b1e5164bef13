"""Who is told what about an event, now: the subscriptions that match, with what each does not know.

What waits for a pace is not kept anywhere: it is worked out anew from the event when its time has come. So nothing is told that
is not true any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from streaming.model.event import OpenEvent
from streaming.model.ledger import Cap, Ledger
from streaming.notify.pace import AT_MOST, EVERY, allowed_ms, keeps_back, takes_place, waited_for
from streaming.notify.pace.pace import Pace, Telling
from tidings import event as events
from tidings.notification import Digested, Notification, Reason, notification_id
from tidings.predicate import Verdict
from tidings.subscription import Subscription
from tidings.topic import Topic
from tidings.values import Value


class Quiet(StrEnum):
    """Why a subscription is told nothing now."""

    DIFFERS = "differs"
    """The event does not match, as far as it is known."""
    KNOWN = "known"
    """It has been told all that it wants to know."""
    EARLY = "early"
    """A pace allows it later: the ledger says when that will be looked at."""
    NO_PLACE = "no-place"
    """A pace has no place left for it: the ledger says that it waits for one."""


_DIFFERS, _KNOWN, _EARLY, _NO_PLACE = Quiet  # looking one up takes as long as a call, and every exit below names one
_MATCHES = Verdict.MATCHES


def tell(
    event: OpenEvent,
    topic: Topic,
    subscriptions: Iterable[Subscription],
    now_ms: int,
    *,
    closing: bool = False,
    caps: dict[str, Cap] | None = None,
    quiet: dict[str, Quiet] | None = None,
) -> list[tuple[Subscription, Notification]]:
    """Tell every one of ``subscriptions`` its news, or note what it waits for. Changes the event's ledgers, and the ``caps``.

    ``quiet`` takes down why each of the others is told nothing.
    """
    told: list[tuple[Subscription, Notification]] = []
    if not subscriptions:
        return told
    facts = events.facts(event.knowledge)
    complete = event.is_complete(topic)
    telling = Telling(event.at.key, now_ms, closing, topic.gather, caps)
    for subscription in subscriptions:
        news = news_for(event, subscription, facts, telling)
        if not isinstance(news, dict):
            if quiet is not None:
                quiet[subscription.name] = news
            continue
        ledger = event.ledgers[subscription.name]
        reason = reason_for(ledger, complete=complete, closing=closing)
        ledger.note(news, now_ms, complete=complete)
        told.append((subscription, notification_of(event, subscription, ledger.revision, reason, news)))
    return told


def news_for(
    event: OpenEvent, subscription: Subscription, facts: Mapping[str, Value], telling: Telling
) -> dict[str, Value] | Quiet:
    """What the subscription is to be told now. Where it is nothing, the ledger notes what it waits for, if it does."""
    # What does not match is not its business; what may match once more is known is not told before.
    if subscription.judge(telling.key, facts) is not _MATCHES:
        return _DIFFERS
    # Nothing is told twice.
    ledger = event.ledgers.get(subscription.name) or Ledger()
    news = ledger.untold(subscription.fields, facts)
    if not news:
        return _KNOWN
    event.ledgers[subscription.name] = ledger
    # Every pace has its own time, and the latest counts. Then all is looked at anew, as it will be.
    if telling.now_ms < (due_ms := allowed_ms(subscription, ledger, telling)):
        ledger.due_ms = due_ms
        return _EARLY
    # Only what can really leave takes a place.
    if not takes_place(subscription, ledger, telling):
        return _NO_PLACE
    return news


def watch(event: OpenEvent, pace: Pace, subscriptions: Iterable[Subscription], now_ms: int) -> Counter[str]:
    """What is known has changed: let a pace note for each subscription whether the event matches. Returns what was cancelled,
    because it matches no longer: by the word of the pace that it waited for."""
    facts = events.facts(event.knowledge)
    cancelled: Counter[str] = Counter()
    for subscription in subscriptions:
        ledger = event.ledgers.get(subscription.name)
        matches = subscription.judge(event.at.key, facts) is _MATCHES
        if ledger is None:
            if not matches:
                continue
            ledger = event.ledgers[subscription.name] = Ledger()
        waits = ledger.due_ms is not None and not matches
        why = keeps_back(subscription, ledger, Telling(event.at.key, now_ms)) if waits else None
        if pace.on_change(subscription, ledger, now_ms, matches=matches) and waits:
            cancelled[(why or EVERY).word] += 1
            ledger.due_ms = None
    return cancelled


def unmet(event: OpenEvent, subscription: Subscription, now_ms: int) -> Pace | None:
    """The pace for which something waited in vain: it is not told now, although its event ends. None if nothing did."""
    ledger, facts = event.ledgers[subscription.name], events.facts(event.knowledge)
    if subscription.judge(event.at.key, facts) is not _MATCHES:
        return AT_MOST if ledger.capped else waited_for(subscription, ledger, ledger.due_ms or now_ms)
    if not ledger.untold(subscription.fields, facts):
        return None
    return keeps_back(subscription, ledger, Telling(event.at.key, now_ms, closing=True))


def owed(event: OpenEvent, subscription: Subscription) -> Digested | None:
    """What an event owes a subscription, if it matches: the news of a digest."""
    facts = events.facts(event.knowledge)
    if subscription.judge(event.at.key, facts) is not _MATCHES:
        return None
    news = event.ledgers[subscription.name].untold(subscription.fields, facts)
    return digested(event, news) if news else None


def digested(event: OpenEvent, news: Mapping[str, Value]) -> Digested:
    return Digested(event.id, news, event.span.first_ms, event.span.last_ms)


def reason_for(ledger: Ledger, *, complete: bool, closing: bool) -> Reason:
    """Why it is told now."""
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
        conflicts={n: r.disagreeing for n, r in event.knowledge.items() if r.is_disputed and subscription.wants(n)},
        digest=digest,
    )
