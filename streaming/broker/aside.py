"""Events that are put aside. Their reports are gone by then: what stands in `late` is one message that says what they said."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streaming.broker.desk import Desk
from streaming.model.entry import Entry, Origin
from streaming.model.event import OpenEvent
from streaming.model.outputs import MessageReason, Outcome, PutAside
from streaming.wire.message import encode_message
from tidings import event as events
from tidings import names
from tidings.message import Message
from tidings.values import Value


def put_event_aside(desk: Desk, event: OpenEvent, reason: str, detail: str, fields: Collection[str] | None = None) -> None:
    """Put an event aside, or some of its fields, under the id of the event and the time of its first report."""
    facts = {name: value for name, value in events.facts(event.knowledge).items() if fields is None or name in fields}
    origin = event.first or Origin("", 0, 0, event.opened_ms)
    entry = merged_entry(origin, event.at.topic, event.at.key, event.id, event.span.first_ms, facts)
    desk.outputs.append(PutAside(origin, Outcome.LATE, reason, detail, entry, merged=True))


def put_kept_aside(desk: Desk, event: OpenEvent, detail: str) -> None:
    """Put aside what some subscribers could not be told: reports that were kept as they came, and what else they are owed."""
    books = desk.books(event.at.broker)
    desk.outputs.extend(PutAside(entry.origin, Outcome.LATE, MessageReason.CUT_OFF, detail, entry) for entry in event.kept)
    if event.owed:
        put_event_aside(desk, event, MessageReason.CUT_OFF, detail, event.owed)
        books.left_out["cut-off"] += 1
    untold = min(event.held, len(event.kept))
    books.enter(Outcome.HELD, MessageReason.HOLDING, -untold)
    books.enter(Outcome.LATE, MessageReason.CUT_OFF, untold)
    event.held -= untold
    books.left_out["cut-off"] += len(event.kept) - untold  # told to those who could be reached
    event.kept, event.owed = [], set()


def merged_entry(origin: Origin, topic: str, key: str, event: str, published_ms: int, facts: Mapping[str, Value]) -> Entry:
    """What reports said together, as one message; ``origin`` is where the first of them stands."""
    # By name: in which order reports brought the fields is not remembered, and the same must have the same bytes.
    message = Message(topic, key, dict(sorted(facts.items())), None, event, published_ms)
    return Entry(origin, names.record_key(topic, key), encode_message(message))
