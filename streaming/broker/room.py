"""Where something is taken in: at its address, and within the bound of the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streaming.broker.ahead import give_up
from streaming.broker.desk import Desk
from streaming.broker.state import Slot
from streaming.broker.timers import close
from streaming.model.address import Address


@contextmanager
def slot_at(desk: Desk, at: Address, now_ms: int) -> Iterator[Slot]:
    """What is remembered there, to be added to. The accounts of the bucket are kept, and others make room if they must."""
    slot = desk.state.slots.setdefault(at, Slot())
    with desk.touched(at, slot):
        yield slot
    make_room(desk, now_ms)


def make_room(desk: Desk, now_ms: int) -> None:
    """Keep the bucket within its bound: the oldest slot gives way, is told what it was due, and counted."""
    state = desk.state
    while state.size > desk.rules.open_events:
        at, slot = state.slots.oldest()
        size, topic = slot.size, desk.topic(at.topic)
        for event in list(slot.open):
            close(desk, slot, event, topic, now_ms)
            desk.books(at.broker).evicted += 1
        give_up(desk, at.broker, slot)
        desk.books(at.broker).left_out["digest"] += sum(len(cap.ended) for cap in slot.caps.values())
        del state.slots[at]
        state.size -= size
