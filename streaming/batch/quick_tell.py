"""The usual way that news leaves: to subscriptions here, at once or by a cadence.

It does what `streaming.broker.gathering.let_leave` does at such a place (`Ground.quiet`), and asks nobody who asks for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.batch.ground import Ground
from streaming.broker.desk import Desk
from streaming.broker.telling import settle
from streaming.model.event import OpenEvent
from streaming.model.ledger import Ledger
from streaming.model.outputs import Outcome, Tell
from streaming.notify.tell import notification_of, reason_for
from tidings.values import Value


def let_leave(desk: Desk, ground: Ground, event: OpenEvent, facts: Mapping[str, Value], now_ms: int) -> None:
    """News came: it leaves when it is due. ``facts`` are all that are known."""
    event.news_ms = now_ms
    topic = ground.topic
    complete = event.is_complete(topic)
    if ground.timing.hold_ms and not complete:
        if event.release_ms is None:
            event.release_ms = now_ms + ground.timing.hold_ms
        return
    event.release_ms, event.released = None, True
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
        notification = notification_of(event, subscription, ledger.revision, reason, news)
        desk.outputs.append(Tell(subscription.deliver, subscription.encoding, notification, now_ms))
        if event.held and not event.held_fields.isdisjoint(news):
            settle(event, books, Outcome.TOLD, reason)
