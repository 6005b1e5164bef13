"""A bucket's state as bytes: two letters, a format version, a checksum, and Avro after `state.avsc`.

Damaged bytes and other versions are refused, never guessed at.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections import Counter
from functools import cache
from importlib.resources import files
from typing import Any

from streaming.broker.books import Books
from streaming.broker.state import BucketState, Closed, Slot
from streaming.gather.ledger import Ledger
from streaming.gather.open_event import EventKey, OpenEvent, Span
from tidings.errors import BadState
from tidings.registers import Claim, Join, Register
from tidings.values import plain

FORMAT = 1
_HEADER = struct.Struct(">2sBI")
_LETTERS = b"TB"


def encode(state: BucketState) -> bytes:
    """The state as a blob. Equal states give equal bytes, whatever order they were built in."""
    from fastavro import schemaless_writer

    body = io.BytesIO()
    schemaless_writer(body, _schema(), _state_datum(state))
    data = body.getvalue()
    return _HEADER.pack(_LETTERS, FORMAT, zlib.crc32(data)) + data


def decode(blob: bytes) -> BucketState:
    """The state in a blob; raises `BadState` for a damaged one or one of another format version."""
    from fastavro import schemaless_reader

    if len(blob) < _HEADER.size or blob[:2] != _LETTERS:
        raise BadState("a state blob does not start like one: the checkpoint is damaged or not ours")
    _, version, checksum = _HEADER.unpack_from(blob)
    if version != FORMAT:
        raise BadState(f"a state blob has format {version}, this release reads {FORMAT}: use the release that wrote it")
    data = blob[_HEADER.size :]
    if zlib.crc32(data) != checksum:
        raise BadState("a state blob fails its checksum: the checkpoint is damaged; restore it or start with another --dir")
    datum: dict[str, Any] = schemaless_reader(io.BytesIO(data), _schema(), None)
    return _state(datum)


@cache
def _schema() -> Any:
    from fastavro import parse_schema

    text = files("streaming.broker").joinpath("state.avsc").read_text(encoding="utf-8")
    return parse_schema(json.loads(text))


# ---- to plain data ----------------------------------------------------------------------------------------------------


def _state_datum(state: BucketState) -> dict[str, Any]:
    return {
        "version": state.version,
        "clock_ms": state.clock_ms,
        "partitions": list(state.partitions),
        "marks": dict(sorted(state.marks.items())),
        "books": {broker: _books_datum(books) for broker, books in sorted(state.books.items())},
        # Slots keep their order: the oldest is the first to make room.
        "slots": [_slot_datum(at, slot) for at, slot in state.slots.items()],
    }


def _books_datum(books: Books) -> dict[str, Any]:
    return {
        "received": books.received,
        "outcomes": [
            {"outcome": str(outcome), "reason": str(reason), "count": count}
            for (outcome, reason), count in sorted(books.outcomes.items())
        ],
        "notifications": {str(reason): count for reason, count in sorted(books.notifications.items())},
        "evicted": books.evicted,
        "conflicts": books.conflicts,
        "left_out": dict(sorted(books.left_out.items())),
    }


def _slot_datum(at: EventKey, slot: Slot) -> dict[str, Any]:
    broker, topic, key = at
    return {
        "broker": broker,
        "topic": topic,
        "key": key,
        "seen": slot.seen,
        "closed": [{"first_ms": c.span.first_ms, "last_ms": c.span.last_ms, "forget_ms": c.forget_ms} for c in slot.closed],
        "open": [_event_datum(event) for event in slot.open],
    }


def _event_datum(event: OpenEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "opened_ms": event.opened_ms,
        "news_ms": event.news_ms,
        "first_ms": event.span.first_ms,
        "last_ms": event.span.last_ms,
        "reports": event.reports,
        "sources": sorted(event.sources),
        "held": event.held,
        "held_fields": sorted(event.held_fields),
        "release_ms": event.release_ms,
        "released": event.released,
        "knowledge": {name: _register_datum(register) for name, register in sorted(event.knowledge.items())},
        "ledgers": {name: _ledger_datum(ledger) for name, ledger in sorted(event.ledgers.items())},
    }


def _register_datum(register: Register) -> dict[str, Any]:
    claims = [
        {"value": plain(c.value), "published_ms": c.published_ms, "message_id": c.message_id, "source": c.source}
        for c in register.claims
    ]
    return {"kind": str(register.kind), "claims": claims}


def _ledger_datum(ledger: Ledger) -> dict[str, Any]:
    return {
        "told": dict(sorted(ledger.told.items())),
        "revision": ledger.revision,
        "told_ms": ledger.told_ms,
        "told_complete": ledger.told_complete,
        "due_ms": ledger.due_ms,
    }


# ---- and back ---------------------------------------------------------------------------------------------------------


def _state(datum: dict[str, Any]) -> BucketState:
    slots = {(s["broker"], s["topic"], s["key"]): _slot(s) for s in datum["slots"]}
    return BucketState(
        version=datum["version"],
        clock_ms=datum["clock_ms"],
        partitions=tuple(datum["partitions"]),
        marks=datum["marks"],
        slots=slots,
        books={broker: _books(books) for broker, books in datum["books"].items()},
        size=sum(slot.size for slot in slots.values()),
    )


def _books(datum: dict[str, Any]) -> Books:
    outcomes = Counter({(entry["outcome"], entry["reason"]): entry["count"] for entry in datum["outcomes"]})
    notifications = Counter(datum["notifications"])
    left_out = Counter(datum["left_out"])
    return Books(datum["received"], outcomes, notifications, datum["evicted"], datum["conflicts"], left_out)


def _slot(datum: dict[str, Any]) -> Slot:
    at = (datum["broker"], datum["topic"], datum["key"])
    closed = [Closed(Span(c["first_ms"], c["last_ms"]), c["forget_ms"]) for c in datum["closed"]]
    return Slot([_event(at, event) for event in datum["open"]], closed, datum["seen"])


def _event(at: EventKey, datum: dict[str, Any]) -> OpenEvent:
    return OpenEvent(
        id=datum["id"],
        at=at,
        opened_ms=datum["opened_ms"],
        span=Span(datum["first_ms"], datum["last_ms"]),
        news_ms=datum["news_ms"],
        knowledge={name: _register(register) for name, register in datum["knowledge"].items()},
        reports=datum["reports"],
        sources=set(datum["sources"]),
        held=datum["held"],
        held_fields=set(datum["held_fields"]),
        release_ms=datum["release_ms"],
        released=datum["released"],
        ledgers={name: Ledger(**ledger) for name, ledger in datum["ledgers"].items()},
    )


def _register(datum: dict[str, Any]) -> Register:
    claims = tuple(
        Claim(tuple(v) if isinstance(v := c["value"], list) else v, c["published_ms"], c["message_id"], c["source"])
        for c in datum["claims"]
    )
    return Register(Join(datum["kind"]), claims)
