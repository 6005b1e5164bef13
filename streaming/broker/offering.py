"""What a broker offers to its links for the windows beyond them, and to itself for those of its own subscribers.

It offers what enters at it, and what comes over a link from another process. Where one process serves all brokers, the pipeline
of windows hands on from broker to broker by itself (decision 0026), so nothing that came over a link is offered again.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from streaming.broker.aside import put_event_aside
from streaming.broker.desk import Desk
from streaming.model.books import WindowItem
from streaming.model.event import OpenEvent
from streaming.model.inputs import Arrived, Heard
from streaming.model.items import Item, Publication, Through, is_taken, missed
from streaming.model.links import WindowRecord
from streaming.model.outputs import MessageReason, Outcome, PutAside
from tidings import event as events
from topology.plan import Place, Plan, Role


class Taken(StrEnum):
    """What the windows made of a publication."""

    NOWHERE = "nowhere"
    """No aggregate subscription asks for it."""
    COUNTED = "counted"
    MISSED = "missed"
    """All windows that it would have counted in were closed."""


def offer_publication(desk: Desk, arrived: Arrived, crossed: Collection[str]) -> tuple[Taken, list[str]]:
    """Offer what was published; ``crossed`` are the links that carry it anyway. Also returns who would have wanted it earlier."""
    broker, topic = arrived.at.place
    if topic not in desk.plan.windowed_topics:
        return Taken.NOWHERE, []
    item = _publication(arrived)
    taken = _offer(desk, broker, topic, item, arrived.sender, crossed)
    # Whoever it is late for, it is late by the times it has: one broker says so, the one where it entered.
    late = _missed(desk, broker, topic, item, taken) if arrived.sender is None else []
    _mention(desk, arrived, late)
    return Taken.COUNTED if taken else Taken.MISSED if late else Taken.NOWHERE, late


def _publication(arrived: Arrived) -> Publication:
    """What arrived, as windows take it."""
    message, origin = arrived.message, arrived.entry.origin
    return Publication(
        key=message.key,
        id=message.message_id,
        published_ms=arrived.published_ms,
        entered_ms=origin.append_ms,
        entered_at=(origin.kafka_topic, origin.partition, origin.offset),
        fields=dict(message.fields),
    )


def _mention(desk: Desk, arrived: Arrived, late: list[str]) -> None:
    """Put aside what came too late for some windows, where each broker gathers for its own: nothing else says so there."""
    if not late or not desk.topic(arrived.message.topic).gather:
        return
    detail = f"published {arrived.origin.append_ms - arrived.published_ms} ms before it arrived; too late for {', '.join(late)}"
    desk.outputs.append(PutAside(arrived.origin, Outcome.LATE, MessageReason.WINDOW_CLOSED, detail))
    desk.books(arrived.broker).left_out["window"] += 1


def offer_event(desk: Desk, event: OpenEvent, place: Place) -> None:
    """An event has ended: it counts once, as it was in the end, at the time of its first report."""
    broker, topic, key = event.at
    if place.role is not Role.GATHERS or topic not in desk.plan.windowed_topics:
        return
    item = Publication(
        key=key,
        id=event.id,
        published_ms=event.span.first_ms,
        entered_ms=event.entered_ms,
        entered_at=(event.first.kafka_topic, event.first.partition, event.first.offset) if event.first else (event.id, 0, 0),
        fields=dict(events.facts(event.knowledge)),
    )
    taken = _offer(desk, broker, topic, item, None, ())
    if late := _missed(desk, broker, topic, item, taken):
        waited_ms = item.entered_ms - item.published_ms
        detail = f"its first report was published {waited_ms} ms before the first of them entered; too late for {', '.join(late)}"
        put_event_aside(desk, event, MessageReason.WINDOW_CLOSED, detail)
        desk.books(broker).left_out["window"] += 1


def hear_window(desk: Desk, happened: Heard, record: WindowRecord) -> None:
    """A neighbour decided for a window: what it sent is offered onwards, as it is."""
    broker, item = happened.broker, record.item
    if isinstance(item, Through):
        if desk.rules.serves_all:
            return  # from before this process served all
        for to in desk.plan.windows(broker, record.topic):
            if to != happened.sender:
                desk.offer(broker, to, record.topic, item, via=happened.sender, at_ms=happened.origin.append_ms)
        return
    desk.books(broker).received += 1
    taken = _offer(desk, broker, record.topic, item, happened.sender, ())
    desk.decide(happened.origin, broker, Outcome.MERGED, MessageReason.WINDOWED if taken else MessageReason.UNWANTED)


def _missed(desk: Desk, broker: str, topic: str, item: Publication, taken: Collection[str]) -> list[str]:
    """The subscriptions whose windows had closed when this entered."""
    found = []
    for to, subscriptions in desk.plan.windows(broker, topic).items():
        if late := missed(subscriptions, item):
            found += late
            if to not in taken:
                items = desk.books(broker).window_items
                items[to, WindowItem.OFFERED] += 1
                items[to, WindowItem.LATE] += 1
    return found


def _offer(desk: Desk, broker: str, topic: str, item: Item, via: str | None, crossed: Collection[str]) -> Collection[str]:
    """Offer it wherever a window takes it; returns where that is."""
    taken = takers(desk.plan, broker, topic, item, via)
    if via is not None and desk.rules.serves_all:
        return taken  # it has been handed on
    for to in taken:
        desk.offer(broker, to, topic, item, via=via, crosses=to in crossed)
        desk.books(broker).window_items[to, WindowItem.OFFERED] += 1
    return taken


def takers(plan: Plan, broker: str, topic: str, item: Item, via: str | None) -> list[str]:
    """Where a window takes what came to a broker from a neighbour, or from nobody else: neighbours, and the broker itself."""
    return [to for to in plan.windows(broker, topic) if to != via and _takes(plan, (broker, to, topic), item)]


def _takes(plan: Plan, at: tuple[str, str, str], item: Item) -> bool:
    if isinstance(item, Publication):
        return is_taken(plan.window_index(*at).candidates(item.key, item.fields), item)
    return item.interest in plan.window_interests(*at)
