"""How a publication finds its way: gathered here, passed on to the broker that gathers, or spread to where it is wanted."""

from __future__ import annotations

from streaming.broker.ahead import wait
from streaming.broker.desk import Desk, unknown_broker
from streaming.broker.filtering import Candidate, wanted
from streaming.broker.gathering import gather, measure, measure_again, seen_before
from streaming.broker.offering import offer_publication
from streaming.broker.room import slot_at
from streaming.broker.state import Slot
from streaming.model.event import OpenEvent
from streaming.model.inputs import Arrived
from streaming.model.links import PassedOn
from streaming.model.outputs import MessageReason, Outcome, Unsent
from tidings import event as events
from tidings.errors import Unreadable
from topology.plan import Place, Role

MOST_HOPS = 1000
"""While brokers take up a change one after the other, a message may go to and fro. This is where patience ends."""


def arrived(desk: Desk, happened: Arrived) -> OpenEvent | None:
    """Do with a publication what the place of the broker asks for: pass it on toward the broker that gathers, gather it, or
    spread it. Returns the event that it was joined to, if it was."""
    place = desk.plan.place(happened.broker, happened.message.topic)
    if place.role is Role.GONE:
        _turn_back(desk, happened)
    elif happened.published_ms > happened.origin.append_ms + desk.rules.ahead_ms:
        _refuse_ahead_of_time(desk, happened)
    elif place.role is Role.PASSES and place.toward is not None:
        if not _known_here(desk, happened):
            pass_on(desk, happened, place.toward)
    else:
        with slot_at(desk, happened.at, happened.origin.append_ms) as slot:
            return _spread(desk, slot, happened, place) if place.role is Role.SPREADS else gather(desk, slot, happened)
    return None


def arrived_early(desk: Desk, happened: Arrived) -> None:
    """Keep a publication until the ways that it came by hold here."""
    with slot_at(desk, happened.at, happened.origin.append_ms) as slot:
        wait(desk, slot, happened)


def arrived_again(desk: Desk) -> None:
    """Take in what has waited here, by the ways that hold now."""
    waited, desk.again = desk.again, []
    for happened in waited:
        arrived(desk, happened)


def _refuse_ahead_of_time(desk: Desk, happened: Arrived) -> None:
    ahead_ms = happened.published_ms - happened.origin.append_ms
    detail = f"published {ahead_ms} ms after it was appended; at most {desk.rules.ahead_ms} are allowed"
    desk.put_aside(happened.origin, happened.broker, Unreadable.PUBLISHED_AHEAD, detail)


def _known_here(desk: Desk, happened: Arrived) -> bool:
    """Drop a publication that would change nothing of what the gatherer has told this broker: it would not there either. Only
    where the topic asks for such an early look."""
    message = happened.message
    topic, bounds = desk.topic(message.topic), desk.rules.bounds
    slot = desk.state.slots.get(happened.at) if topic.early else None
    for event in slot.open if slot else ():
        if event.closes_ms(topic) > happened.origin.append_ms and event.span.fits(happened.published_ms, topic.timing.window_ms):
            report = events.report(message, happened.published_ms, topic, bounds)
            # Not only redundant: that the last value is stated again, and later, may matter to the broker that gathers.
            if events.join(event.knowledge, report, bounds) == event.knowledge:
                desk.decide(happened.origin, happened.broker, Outcome.REDUNDANT, MessageReason.KNOWN, event.id)
                return True
    return False


def pass_on(desk: Desk, happened: Arrived, to: str) -> None:
    """Send a publication one broker further, as its publisher sent it."""
    record = _sent_on(desk, happened)
    if record.hops > MOST_HOPS:
        detail = f"it crossed {MOST_HOPS} links and did not find the broker that gathers"
        desk.put_aside(happened.origin, happened.broker, Unreadable.TOO_MANY_HOPS, detail, entry=happened.entry)
        return
    desk.send(happened.broker, to, record, happened.origin.append_ms)
    desk.decide(happened.origin, happened.broker, Outcome.FORWARDED, MessageReason.TO_GATHERER)


def _sent_on(desk: Desk, happened: Arrived) -> PassedOn:
    """A publication as it crosses one link more."""
    hops = happened.passed.hops + 1 if happened.passed else 1
    return PassedOn(happened.message, happened.published_ms, happened.entry, hops, desk.state.version)


def _turn_back(desk: Desk, happened: Arrived) -> None:
    """The broker is gone. What a neighbour sent before it knew goes back to it; what a publisher sends is not taken."""
    if happened.sender is not None and desk.plan.has(happened.sender):
        pass_on(desk, happened, happened.sender)
    else:
        reason, detail = unknown_broker(happened.broker)
        desk.put_aside(happened.origin, happened.broker, reason, detail, entry=happened.entry if happened.passed else None)


def _spread(desk: Desk, slot: Slot, happened: Arrived, place: Place) -> OpenEvent | None:
    """Nobody gathers for all: send the message to every neighbour beyond which it is wanted, and take it for those here."""
    at, topic = happened.at, desk.topic(happened.message.topic)
    if not topic.gather and seen_before(desk, slot, happened):
        if _leads_on(desk, slot, happened):
            _send_on(desk, happened, place)
            measure_again(desk, happened)
        return None
    crossed = _send_on(desk, happened, place)
    if crossed and not topic.gather:
        slot.spread[happened.message.message_id] = desk.state.version
    counted = offer_publication(desk, happened, crossed)
    if not topic.gather:
        measure(desk, slot, happened, crossed=bool(crossed), counted=counted)
    elif at.place in desk.plan.snapshot.by_topic or not crossed or place.cut_off:
        return gather(desk, slot, happened)
    else:
        desk.decide(happened.origin, at.broker, Outcome.FORWARDED, MessageReason.TO_SUBSCRIBERS)
    return None


def _leads_on(desk: Desk, slot: Slot, happened: Arrived) -> bool:
    """Whether a measurement that was sent on from here before goes on once more: by ways that did not hold then."""
    message_id, passed = happened.message.message_id, happened.passed
    if passed is None or not slot.spread.get(message_id, 0) < passed.version <= desk.state.version:
        return False
    slot.spread[message_id] = desk.state.version
    if message_id not in slot.seen:
        desk.wake_at(0)
    return True


def _send_on(desk: Desk, happened: Arrived, place: Place) -> set[str]:
    """Send a message where it is wanted, but not back; unless it came by old ways: then those that hold begin here."""
    back = None if desk.begins(happened) else happened.sender
    links = {neighbour: profile for neighbour, profile in place.links.items() if neighbour != back}
    offered = Candidate(*happened.at, happened.message.fields, happened.origin.append_ms)
    record, unsent, crossed = _sent_on(desk, happened), desk.books(happened.broker).unsent, set()
    for neighbour, goes in wanted(desk, place, offered, links).items():
        if not goes:
            unsent[neighbour, Unsent.FILTERED] += 1
        else:
            desk.send(happened.broker, neighbour, record, happened.origin.append_ms)
            crossed.add(neighbour)
    return crossed
