"""What neighbours tell a broker about events, and what that makes it tell on: up, down, and back if the neighbour is wrong.

Every link of a tree has a ledger at either end: what the far end is known to know. Whatever a broker comes to know that the
far end of one of its links does not know by its ledger, crosses that link: downwards what somebody beyond wants, upwards all. So
both ends come to agree, whoever gathered what before, and in whatever order the overlay changed; joining does the rest.
"""

from __future__ import annotations

from streaming.broker.aside import put_event_aside
from streaming.broker.desk import Desk
from streaming.broker.gathering import enter
from streaming.broker.handover import hand_on, owe_if_cut, owns, take_over
from streaming.broker.offering import hear_window
from streaming.broker.room import taking
from streaming.broker.state import Slot
from streaming.broker.telling import facts_known, knows, tell_link, tell_on
from streaming.broker.timers import advance_all, tell_news
from streaming.model.address import Address
from streaming.model.event import OpenEvent, find_event, open_from
from streaming.model.inputs import Heard
from streaming.model.links import EventNews, WindowRecord
from streaming.model.outputs import MessageReason, Outcome
from tidings import event as events
from tidings.topic import Topic
from tidings.values import fact_digest


def heard(desk: Desk, happened: Heard) -> None:
    """A neighbour told what is new about an event, or hands its memory over."""
    record = happened.record
    if desk.is_repeat(happened.broker, happened.sender, happened.stamp):
        return
    desk.heard(happened.broker, happened.sender, record, happened.size)
    if isinstance(record, WindowRecord):
        hear_window(desk, happened, record)
        return
    at, topic = happened.at, desk.topic(record.topic)
    with taking(desk, at, happened.origin.append_ms) as slot:
        advance_all(desk, slot, topic, happened.origin.append_ms)
        if isinstance(record, EventNews):
            _learn(desk, at, slot, topic, happened, record)
        elif owns(desk, at, record):
            take_over(desk, at, slot, topic, happened, record)
        else:
            hand_on(desk, at, slot, topic, happened, record)


def _learn(desk: Desk, at: Address, slot: Slot, topic: Topic, happened: Heard, news: EventNews) -> None:
    """Join what a neighbour knows. It has waited long enough there, so it goes on at once."""
    desk.books(at.broker).received += 1
    append_ms, sender = happened.origin.append_ms, happened.sender
    if not desk.plan.has(at.broker) and news.version <= desk.state.version:
        _turn_away(desk, at, happened, news)
        return
    if sender != desk.plan.place(at.broker, at.topic).toward and _was_told(slot, news):
        # What a neighbour still remembers of an event that has ended here: all of it was told.
        desk.decide(happened.origin, at.broker, Outcome.REDUNDANT, MessageReason.KNOWN, news.event)
        return
    event = find_event(at, slot.open, slot.closed, topic, news.event, news.span, append_ms)
    knowledge = events.join(event.knowledge, news.knowledge, desk.rules.bounds)
    added = events.added(event.knowledge, knowledge)
    event.knowledge = knowledge
    event.span.take_in(news.span)
    event.elsewhere.reports = max(event.elsewhere.reports, news.reports - event.reports)
    event.elsewhere.sources = max(event.elsewhere.sources, news.sources)
    event.elsewhere.complete = event.elsewhere.complete or news.complete
    knows(event, sender, facts_known(news.knowledge))
    owe_if_cut(desk, event, added.news, news.version)
    enter(desk, event, happened.origin, added, sender)
    if added.news:
        event.news_ms = append_ms
        tell_news(desk, slot, event, topic, append_ms, closing=news.final)
        tell_on(desk, event, topic, append_ms)
    elif _is_wrong(event, news):
        tell_link(desk, event, topic, sender, append_ms)
    event.released = True


def _turn_away(desk: Desk, at: Address, happened: Heard, news: EventNews) -> None:
    """The broker was taken out of the overlay while this was on its way. Whoever sent it knows it, and tells it by other ways;
    but to those whom no link leads to from there, nobody can tell it."""
    broker, name, _ = at
    sender, plan = happened.sender, desk.plan
    if name in plan.asked_topics and (not plan.has(sender) or plan.place(sender, name).cut_off):
        event = open_from(at, news.event, news.span, happened.origin.append_ms)
        event.knowledge = dict(news.knowledge)
        put_event_aside(
            desk, event, MessageReason.CUT_OFF, f"it was told to broker {broker!r}, which was taken out of the overlay"
        )
        desk.decide(happened.origin, broker, Outcome.LATE, MessageReason.CUT_OFF, news.event)
    else:
        desk.decide(happened.origin, broker, Outcome.MERGED, MessageReason.UNWANTED, news.event)


def _was_told(slot: Slot, news: EventNews) -> bool:
    """Whether an event that has ended here knew all of this in the end."""
    facts = facts_known(news.knowledge)
    return any(closed.event == news.event and facts.items() <= closed.facts.items() for closed in slot.closed)


def _is_wrong(event: OpenEvent, news: EventNews) -> bool:
    """Whether the neighbour takes something for true that is known better here."""
    return any(fact_digest(r.value) != fact_digest(event.knowledge[n].value) for n, r in news.knowledge.items())
