"""What waits at this moment, for whom and why: for people who ask why they were not told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streaming.broker.state import BucketState, Slot
from streaming.model.event import OpenEvent
from streaming.model.ledger import Ledger
from streaming.notify.pace import AT_MOST, waited_for
from streaming.notify.pace.pace import Pace
from streaming.notify.tell import owed
from tidings.control import Snapshot
from tidings.notification import Digested
from tidings.subscription import Subscription


@dataclass(frozen=True, slots=True)
class Wait:
    """What a subscription will be told, if it is still so then."""

    subscription: Subscription
    waits_for: Pace
    until_ms: int
    news: Digested


def waits(state: BucketState, control: Snapshot, topic: str, key: str) -> list[Wait]:
    """All that waits to be told about a topic and key, in the order it is due."""
    slots = [slot for at, slot in state.slots.items() if at.about == (topic, key)]
    found = [wait for slot in slots for wait in (*_open(slot, control), *_ended(slot, control))]
    return sorted(found, key=lambda wait: (wait.until_ms, wait.subscription.name))


def _open(slot: Slot, control: Snapshot) -> Iterator[Wait]:
    for event in slot.open:
        for name, ledger in event.ledgers.items():
            subscription = control.subscriptions.get(name)
            if subscription is not None and (wait := _wait(slot, event, ledger, subscription)) is not None:
                yield wait


def _wait(slot: Slot, event: OpenEvent, ledger: Ledger, subscription: Subscription) -> Wait | None:
    news = owed(event, subscription)
    if news is None:
        return None
    if ledger.due_ms is not None:
        return Wait(subscription, waited_for(subscription, ledger, ledger.due_ms), ledger.due_ms, news)
    cap = slot.caps.get(subscription.name)
    if ledger.capped and cap is not None and cap.due_ms is not None:
        return Wait(subscription, AT_MOST, cap.due_ms, news)
    return None


def _ended(slot: Slot, control: Snapshot) -> Iterator[Wait]:
    for name, cap in slot.caps.items():
        subscription = control.subscriptions.get(name)
        if subscription is not None and cap.due_ms is not None:
            for news in cap.ended:
                yield Wait(subscription, AT_MOST, cap.due_ms, news)
