"""The usual way that news leaves: to subscriptions here, at once or by a cadence.

It does what `streaming.broker.gathering.let_leave` does at such a place (`Ground.quiet`), and asks nobody who asks for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.batch.ground import Ground
from streaming.batch.writing import told, wanted
from streaming.broker.desk import Desk
from streaming.broker.telling import settle
from streaming.model.event import OpenEvent
from streaming.model.ledger import Ledger
from streaming.model.outputs import Outcome, WrittenTell
from streaming.notify.tell import reason_for
from tidings import event as events
from tidings.notification import Reason
from tidings.subscription import Subscription
from tidings.values import Value


def let_leave(desk: Desk, ground: Ground, event: OpenEvent, now_ms: int) -> None:
    """News came: it leaves when it is due."""
    event.news_ms = now_ms
    topic = ground.topic
    complete = event.is_complete(topic)
    if ground.timing.hold_ms and not complete:
        if event.release_ms is None:
            event.release_ms = now_ms + ground.timing.hold_ms
        return
    event.release_ms, event.released = None, True
    facts = events.facts(event.knowledge)
    for subscription in ground.concerned(event.at.key, facts):
        ledger = event.ledgers.get(subscription.name)
        if ledger is None:
            ledger = Ledger()
        news = ledger.untold(subscription, facts)
        if not news:
            continue
        event.ledgers[subscription.name] = ledger
        if ledger.revision and now_ms < ledger.told_ms + subscription.every_ms:
            ledger.due_ms = ledger.told_ms + subscription.every_ms
            continue
        reason = reason_for(ledger, complete=complete, closing=False)
        ledger.note(news, now_ms, complete=complete)
        books = desk.books(ground.broker)
        books.notifications[reason] += 1
        desk.outputs.append(_told(event, subscription, ledger.revision, reason, news, now_ms))
        if event.held and not event.held_fields.isdisjoint(news):
            settle(event, books, Outcome.TOLD, reason)


def _told(
    event: OpenEvent, subscription: Subscription, revision: int, reason: Reason, news: Mapping[str, Value], now_ms: int
) -> WrittenTell:
    counts = event.all_reports, event.all_sources, event.span.first_ms, event.span.last_ms
    disputed = {name: known.disagreeing for name, known in event.knowledge.items() if len(known.claims) > 1 and known.is_disputed}
    conflicts = {name: disputed[name] for name in sorted(disputed) if subscription.wants(name)} if disputed else {}
    sorted_news = wanted(subscription, news, news)
    return told(subscription, event.at, event.id, event.opening, revision, reason, sorted_news, counts, conflicts, now_ms)
