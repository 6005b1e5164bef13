"""What leaves: notifications to subscriptions, news of merged events to neighbours; and what that settles in the books."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streaming.broker.desk import Desk
from streaming.broker.filtering import Candidate, wanted
from streaming.model.books import Books
from streaming.model.event import OpenEvent, Span
from streaming.model.ledger import Ledger
from streaming.model.links import EventNews
from streaming.model.outputs import MessageReason, Outcome, Tell, Unsent
from streaming.notify import tell as notify
from streaming.notify.pace import AT_MOST, WATCHING
from tidings import event as events
from tidings.notification import Notification
from tidings.registers import Register
from tidings.subscription import Subscription
from tidings.topic import Topic
from tidings.values import Value, fact_digest
from topology.plan import Role
from topology.profile import EVERYTHING, Profile


def release(desk: Desk, event: OpenEvent, topic: Topic, now_ms: int, *, closing: bool = False) -> None:
    """Tell everybody their news: the subscriptions here, and the neighbours towards the others."""
    if not closing:
        event.release_ms = None
        event.released = True
    watch(desk, event, now_ms)
    told = tell(desk, event, topic, desk.interested(event), now_ms, closing=closing)
    crossed = tell_links(desk, event, topic, desk.place_of(event).downward, now_ms, closing=closing)
    crossed |= tell_up(desk, event, topic, now_ms)
    if told or crossed:
        deliver(desk, event, told, crossed, now_ms)


def watch(desk: Desk, event: OpenEvent, now_ms: int) -> None:
    """What is known has changed: see for whom the event matches, for the paces that count on it."""
    for pace in WATCHING:
        asking = desk.plan.snapshot.asking[pace.property].get(event.at.place)
        if asking:
            desk.books(event.at.broker).cancelled.update(notify.watch(event, pace, asking, now_ms))


def tell(
    desk: Desk,
    event: OpenEvent,
    topic: Topic,
    subscriptions: Iterable[Subscription],
    now_ms: int,
    *,
    closing: bool = False,
    quiet: dict[str, notify.Quiet] | None = None,
) -> list[tuple[Subscription, Notification]]:
    """What subscriptions are told now, with the places that each has left for the key in this hour."""
    slot = desk.state.slots.get(event.at) if event.at.place in desk.plan.snapshot.asking[AT_MOST.property] else None
    told = notify.tell(event, topic, subscriptions, now_ms, closing=closing, caps=slot.caps if slot else None, quiet=quiet)
    if slot:
        desk.wake_at(slot.forget_ms)
    return told


def deliver(
    desk: Desk, event: OpenEvent, told: Iterable[tuple[Subscription, Notification]], crossed: set[str], now_ms: int
) -> None:
    """Put notifications out, and settle what was held. ``crossed`` are the fields that left over links."""
    books = desk.books(event.at.broker)
    for subscription, notification in told:
        books.notifications[notification.reason] += 1
        desk.outputs.append(Tell(subscription.deliver, subscription.encoding, notification, now_ms))
        if event.held and not event.held_fields.isdisjoint(notification.news):
            settle(event, books, Outcome.TOLD, notification.reason)
    if event.held and not event.held_fields.isdisjoint(crossed):
        settle(event, books, Outcome.FORWARDED, MessageReason.TO_SUBSCRIBERS)


def settle(event: OpenEvent, books: Books, outcome: Outcome, reason: str) -> None:
    """What was held has left: one of the messages stands for it."""
    settle_held(books, event.held, outcome, reason)
    event.held = 0
    event.held_fields = set()


def settle_held(books: Books, held: int, outcome: Outcome, reason: str, times: int = 1) -> None:
    """One of the messages that were held stands for what left, the others were merged into it. So it was so many times."""
    books.enter(Outcome.HELD, MessageReason.HOLDING, -held * times)
    books.enter(outcome, reason, times)
    books.enter(Outcome.MERGED, MessageReason.JOINED, (held - 1) * times)


def settle_all(event: OpenEvent, books: Books, outcome: Outcome, reason: str) -> None:
    """All that is held gets the same end."""
    books.enter(Outcome.HELD, MessageReason.HOLDING, -event.held)
    books.enter(outcome, reason, event.held)
    event.held = 0
    event.held_fields = set()


def facts_known(knowledge: Mapping[str, Register]) -> dict[str, int]:
    """What somebody knows, as a ledger has it."""
    return {name: fact_digest(register.value) for name, register in knowledge.items()}


def knows(event: OpenEvent, neighbour: str, knowledge: Mapping[str, Register]) -> None:
    """The neighbour need not be told these."""
    event.links.setdefault(neighbour, Ledger()).told.update(facts_known(knowledge))


def tell_links(
    desk: Desk, event: OpenEvent, topic: Topic, links: Mapping[str, Profile], now_ms: int, *, closing: bool = False
) -> set[str]:
    """Send each neighbour what it has not been told, if somebody beyond it wants it. Returns the fields that left."""
    if not links:
        return set()
    unsent, crossed = desk.books(event.at.broker).unsent, set[str]()
    candidate = Candidate(*event.at, events.facts(event.knowledge), now_ms)
    for neighbour, goes in wanted(desk, desk.place_of(event), candidate, links).items():
        takes_back = not goes and _takes_back(desk, event, neighbour)
        news = _send_news(desk, event, topic, neighbour, links[neighbour], now_ms, closing=closing) if goes or takes_back else {}
        if news:
            unsent[neighbour, Unsent.JOINED] += max(0, event.held - 1)
            event.links[neighbour].untrue = takes_back
            crossed.update(news)
        else:
            unsent[neighbour, Unsent.KNOWN if goes else Unsent.FILTERED] += event.held
    return crossed


def _takes_back(desk: Desk, event: OpenEvent, neighbour: str) -> bool:
    """Whoever waits beyond must learn that what it waits for is not true any more: once, then it knows."""
    ledger = event.links.get(neighbour)
    return event.at.topic in desk.plan.snapshot.paced and ledger is not None and bool(ledger.told) and not ledger.untrue


def tell_up(desk: Desk, event: OpenEvent, topic: Topic, now_ms: int) -> set[str]:
    """Send towards the broker that gathers what is known here and not there. Returns the fields that left.

    Mostly there is nothing: what a broker knows, it was told from there. But once another one gathered, or no link led there.
    """
    place = desk.place_of(event)
    if place.role is not Role.PASSES or place.toward is None:
        return set()
    return set(_send_news(desk, event, topic, place.toward, EVERYTHING, now_ms))


def tell_link(desk: Desk, event: OpenEvent, topic: Topic, neighbour: str, now_ms: int) -> None:
    """Send one neighbour what it does not know."""
    place = desk.place_of(event)
    if neighbour == place.toward:
        crossed = tell_up(desk, event, topic, now_ms)
    else:
        crossed = tell_links(desk, event, topic, {n: p for n, p in place.downward.items() if n == neighbour}, now_ms)
    deliver(desk, event, (), crossed, now_ms)


def _send_news(
    desk: Desk, event: OpenEvent, topic: Topic, to: str, profile: Profile, now_ms: int, *, closing: bool = False
) -> dict[str, Value]:
    """Send a neighbour what the profile wants of an event and it has not been told. Returns that.

    The registers of the news cross; and those of what is in dispute, so that the far end can say so.
    """
    ledger = event.links.get(to) or Ledger()
    news = ledger.untold(profile.fields, events.facts(event.knowledge))
    if not news:
        return news
    event.links[to] = ledger
    ledger.note(news, now_ms, complete=False)
    record = EventNews(
        topic=event.at.topic,
        key=event.at.key,
        event=event.id,
        span=Span(event.span.first_ms, event.span.last_ms),
        knowledge={n: r for n, r in event.knowledge.items() if n in news or (r.disagreeing and profile.wants(n))},
        reports=event.all_reports,
        sources=event.all_sources,
        complete=event.is_complete(topic),
        final=closing,
        version=desk.state.version,
    )
    desk.send(event.at.broker, to, record, now_ms)
    return news
