"""Messages that come by ways which are not known here yet.

Between processes, one broker goes by a new version of the control data a little earlier than another. A message that travels by
itself leaves nothing behind where it passes: sent on by old ways, it might miss those whom only the new ones lead to. So it waits
for the version that its sender went by. A broker that has not taken that up after `Rules.patience_ms` sends it by the ways it
has, and puts it aside as well.
"""

from __future__ import annotations

from msgspec import structs

from streaming.broker.desk import Desk
from streaming.broker.state import Ahead, Slot
from streaming.model.inputs import Arrived
from streaming.model.links import PassedOn
from streaming.model.outputs import MessageReason, Outcome, PutAside
from topology.plan import Role

_LEAVES_NOTHING = frozenset({Role.SPREADS, Role.GONE})


def must_wait(desk: Desk, happened: Arrived) -> bool:
    """Whether a message came by newer ways than those that hold here, and would be lost or sent back by these."""
    if happened.passed is None or happened.passed.version <= desk.state.version:
        return False
    place = desk.plan.place(happened.broker, happened.message.topic)
    return place.role in _LEAVES_NOTHING or place.toward == happened.sender


def wait(desk: Desk, slot: Slot, happened: Arrived) -> None:
    """Keep a message until the ways that it came by are known."""
    passed, sender = happened.passed, happened.sender
    assert passed is not None
    assert sender is not None
    until_ms = happened.origin.append_ms + desk.rules.patience_ms
    sent = passed.message, passed.published_ms, passed.entry, passed.hops, passed.version
    slot.ahead.append(Ahead(happened.origin, until_ms, sender, *sent))
    desk.state.carried.add(happened.at.place)
    desk.decide(happened.origin, happened.broker, Outcome.HELD, MessageReason.HOLDING)
    desk.wake_at(until_ms)


def catch_up(desk: Desk, broker: str, slot: Slot, now_ms: int) -> None:
    """Another version of the control data holds: the messages that waited for it come now, as it were."""
    for each in slot.ahead:
        if each.version <= desk.state.version or not desk.plan.has(broker):
            _take_out(desk, broker, slot, each, now_ms)


def lose_patience(desk: Desk, broker: str, slot: Slot, now_ms: int) -> None:
    """Messages that have waited for too long come now, too. They are put aside as well, since some may miss them."""
    for each in slot.ahead:
        if each.until_ms <= now_ms:
            _put_aside(desk, broker, each)
            desk.books(broker).left_out["ahead"] += 1
            _take_out(desk, broker, slot, each, now_ms)
        else:
            desk.wake_at(each.until_ms)


def give_up(desk: Desk, broker: str, slot: Slot) -> None:
    """They have to make room."""
    for each in slot.ahead:
        _put_aside(desk, broker, each)
        desk.books(broker).enter(Outcome.HELD, MessageReason.HOLDING, -1)
        desk.books(broker).enter(Outcome.LATE, MessageReason.CUT_OFF)


def _take_out(desk: Desk, broker: str, slot: Slot, each: Ahead, now_ms: int) -> None:
    slot.ahead = [other for other in slot.ahead if other is not each]
    desk.books(broker).enter(Outcome.HELD, MessageReason.HOLDING, -1)
    passed = PassedOn(each.message, each.published_ms, each.entry, each.hops, each.version)
    origin = structs.replace(each.origin, append_ms=max(now_ms, each.origin.append_ms))
    desk.again.append(Arrived(origin, broker, each.message, sender=each.sender, passed=passed))


def _put_aside(desk: Desk, broker: str, each: Ahead) -> None:
    detail = f"broker {broker!r} goes by version {desk.state.version} of the control data, and the message came by {each.version}"
    desk.outputs.append(PutAside(each.entry.origin, Outcome.LATE, MessageReason.CUT_OFF, detail, each.entry))
