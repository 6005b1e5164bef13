"""What neighbours tell a broker about events, and what that makes it tell on: up, down, and back if the neighbour is wrong.

Every link of a tree has a ledger at either end: what the far end is known to know. Whatever a broker comes to know that the
far end of one of its links does not know by its ledger, crosses that link: downwards what somebody beyond wants, upwards all. So
both ends come to agree, whoever gathered what before, and in whatever order the overlay changed; joining does the rest.
"""

from __future__ import annotations

from streaming.broker.aside import put_event_aside
from streaming.broker.desk import Desk
from streaming.broker.gathering import enter, leave_at_once
from streaming.broker.handover import owe_if_cut
from streaming.broker.room import slot_at
from streaming.broker.state import Slot
from streaming.broker.telling import facts_known, knows, tell_link
from streaming.broker.timers import advance_all
from streaming.model.event import OpenEvent, find_event, open_from
from streaming.model.inputs import Heard
from streaming.model.links import EventNews
from streaming.model.outputs import MessageReason, Outcome
from tidings.values import fact_digest


def hear_news(desk: Desk, happened: Heard, news: EventNews) -> None:
    """Join what a neighbour knows of an event. It has waited long enough there, so it goes on at once."""
    sender, topic, append_ms = happened.sender, desk.topic(news.topic), happened.origin.append_ms
    with slot_at(desk, happened.at, append_ms) as slot:
        advance_all(desk, slot, topic, append_ms)
        desk.books(happened.broker).received += 1
        if _came_too_late(desk, happened, news) or _was_told(desk, slot, happened, news):
            return
        event = find_event(happened.at, slot.open, slot.closed, topic, news.event, news.span, append_ms)
        added = event.learn(news.knowledge, news.span, desk.rules.bounds)
        event.count_elsewhere(news.reports, news.sources, complete=news.complete)
        knows(event, sender, news.knowledge)
        owe_if_cut(desk, event, added.news, news.version)
        enter(desk, event, happened.origin, added, sender)
        if added.news:
            event.news_ms = append_ms
            leave_at_once(desk, slot, event, topic, append_ms, closing=news.final)
        elif _is_wrong(event, news):
            tell_link(desk, event, topic, sender, append_ms)
        event.released = True


def _came_too_late(desk: Desk, happened: Heard, news: EventNews) -> bool:
    """Turn news away if the broker was taken out of the overlay while it was on its way.

    Whoever sent it knows it, and tells it by other ways; but to those whom no link leads to from there, nobody can tell it.
    """
    broker, name, _ = at = happened.at
    sender, plan = happened.sender, desk.plan
    if plan.has(broker) or news.version > desk.state.version:
        return False
    if name in plan.asked_topics and (not plan.has(sender) or plan.place(sender, name).cut_off):
        event = open_from(at, news.event, news.span, happened.origin.append_ms)
        event.knowledge = dict(news.knowledge)
        put_event_aside(
            desk, event, MessageReason.CUT_OFF, f"it was told to broker {broker!r}, which was taken out of the overlay"
        )
        desk.decide(happened.origin, broker, Outcome.LATE, MessageReason.CUT_OFF, news.event)
    else:
        desk.decide(happened.origin, broker, Outcome.MERGED, MessageReason.UNWANTED, news.event)
    return True


def _was_told(desk: Desk, slot: Slot, happened: Heard, news: EventNews) -> bool:
    """Drop what a neighbour still remembers of an event that has ended here, if all of it was known here in the end. Not if it
    comes from where the event is gathered."""
    facts = facts_known(news.knowledge)
    was_known = any(closed.event == news.event and facts.items() <= closed.facts.items() for closed in slot.closed)
    if not was_known or happened.sender == desk.plan.place(happened.broker, news.topic).toward:
        return False
    desk.decide(happened.origin, happened.broker, Outcome.REDUNDANT, MessageReason.KNOWN, news.event)
    return True


def _is_wrong(event: OpenEvent, news: EventNews) -> bool:
    """Whether the neighbour takes something for true that is known better here."""
    return any(fact_digest(r.value) != fact_digest(event.knowledge[n].value) for n, r in news.knowledge.items())
