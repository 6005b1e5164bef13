"""A bucket's state as bytes: two letters, a format version, a checksum, and Avro after `state.avsc`.

Damaged bytes and other versions are refused, never guessed at.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections import Counter
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from streaming.broker.books import Books
from streaming.broker.state import BucketState, Closed, Filter, FilterMode, Slot
from streaming.gather.entry import Entry, Origin
from streaming.gather.ledger import Ledger
from streaming.gather.open_event import Elsewhere, EventKey, OpenEvent, Span
from tidings.errors import BadState
from tidings.registers import Claim, Join, Register
from tidings.values import plain

FORMAT = 2
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

    return parse_schema(state_schema())


def state_schema() -> Any:
    """The schema of a state, as it stands in `state.avsc`."""
    return json.loads(files("streaming.broker").joinpath("state.avsc").read_text(encoding="utf-8"))


# ---- to plain data ----------------------------------------------------------------------------------------------------


def _state_datum(state: BucketState) -> dict[str, Any]:
    return {
        "version": state.version,
        "clock_ms": state.clock_ms,
        "partitions": list(state.partitions),
        "marks": dict(sorted(state.marks.items())),
        "books": {broker: _books_datum(books) for broker, books in sorted(state.books.items())},
        "sent": [{"broker": b, "to": to, "number": number} for (b, to), number in sorted(state.sent.items())],
        "heard": [
            {"broker": b, "sender": sender, "bucket": bucket, "number": number}
            for (b, sender, bucket), number in sorted(state.heard.items())
        ],
        "filters": [
            {"broker": broker, "topic": topic, **asdict(counts)} for (broker, topic), counts in sorted(state.filters.items())
        ],
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
        "sent": _crossings(books.sent),
        "heard": _crossings(books.heard),
        "heard_bytes": dict(sorted(books.heard_bytes.items())),
        "unsent": _crossings(books.unsent),
    }


def _crossings(counts: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"neighbour": n, "kind": str(kind), "count": count} for (n, kind), count in sorted(counts.items())]


def _slot_datum(at: EventKey, slot: Slot) -> dict[str, Any]:
    broker, topic, key = at
    return {
        "broker": broker,
        "topic": topic,
        "key": key,
        "seen": slot.seen,
        "closed": [{"first_ms": c.span.first_ms, "last_ms": c.span.last_ms, "forget_ms": c.forget_ms} for c in slot.closed],
        "open": [event_datum(event) for event in slot.open],
    }


def event_datum(event: OpenEvent) -> dict[str, Any]:
    """An open event as plain data."""
    return {
        "id": event.id,
        "opening": event.opening,
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
        "knowledge": {name: register_datum(register) for name, register in sorted(event.knowledge.items())},
        "ledgers": {name: _ledger_datum(ledger) for name, ledger in sorted(event.ledgers.items())},
        "links": {name: _ledger_datum(ledger) for name, ledger in sorted(event.links.items())},
        "elsewhere": {
            "reports": event.elsewhere.reports,
            "sources": event.elsewhere.sources,
            "complete": event.elsewhere.complete,
        },
        "kept": [entry_datum(entry) for entry in event.kept],
    }


def entry_datum(entry: Entry) -> dict[str, Any]:
    """A publication and where it stood, as plain data."""
    origin = entry.origin
    return {
        "kafka_topic": origin.kafka_topic,
        "partition": origin.partition,
        "offset": origin.offset,
        "append_ms": origin.append_ms,
        "record_key": entry.record_key,
        "value": entry.value,
    }


def register_datum(register: Register) -> dict[str, Any]:
    """A register as plain data."""
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
        sent={(last["broker"], last["to"]): last["number"] for last in datum["sent"]},
        heard={(last["broker"], last["sender"], last["bucket"]): last["number"] for last in datum["heard"]},
        filters={(f["broker"], f["topic"]): _filter(f) for f in datum["filters"]},
        size=sum(slot.size for slot in slots.values()),
    )


def _filter(datum: dict[str, Any]) -> Filter:
    counts = {name: value for name, value in datum.items() if name not in ("broker", "topic", "mode")}
    return Filter(mode=FilterMode(datum["mode"]), **counts)


def _books(datum: dict[str, Any]) -> Books:
    outcomes = Counter({(entry["outcome"], entry["reason"]): entry["count"] for entry in datum["outcomes"]})
    notifications = Counter(datum["notifications"])
    return Books(
        received=datum["received"],
        outcomes=outcomes,
        notifications=notifications,
        evicted=datum["evicted"],
        conflicts=datum["conflicts"],
        left_out=Counter(datum["left_out"]),
        sent=_crossed(datum["sent"]),
        heard=_crossed(datum["heard"]),
        heard_bytes=Counter(datum["heard_bytes"]),
        unsent=_crossed(datum["unsent"]),
    )


def _crossed(data: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter({(entry["neighbour"], entry["kind"]): entry["count"] for entry in data})


def _slot(datum: dict[str, Any]) -> Slot:
    at = (datum["broker"], datum["topic"], datum["key"])
    closed = [Closed(Span(c["first_ms"], c["last_ms"]), c["forget_ms"]) for c in datum["closed"]]
    return Slot([event_of(at, event) for event in datum["open"]], closed, datum["seen"])


def event_of(at: EventKey, datum: dict[str, Any]) -> OpenEvent:
    """The open event that `event_datum` made data of."""
    return OpenEvent(
        id=datum["id"],
        at=at,
        opening=datum["opening"],
        opened_ms=datum["opened_ms"],
        span=Span(datum["first_ms"], datum["last_ms"]),
        news_ms=datum["news_ms"],
        knowledge={name: register_of(register) for name, register in datum["knowledge"].items()},
        reports=datum["reports"],
        sources=set(datum["sources"]),
        held=datum["held"],
        held_fields=set(datum["held_fields"]),
        release_ms=datum["release_ms"],
        released=datum["released"],
        ledgers={name: Ledger(**ledger) for name, ledger in datum["ledgers"].items()},
        links={name: Ledger(**ledger) for name, ledger in datum["links"].items()},
        elsewhere=Elsewhere(**datum["elsewhere"]),
        kept=[entry_of(entry) for entry in datum["kept"]],
    )


def entry_of(datum: dict[str, Any]) -> Entry:
    """The publication that `entry_datum` made data of."""
    origin = Origin(datum["kafka_topic"], datum["partition"], datum["offset"], datum["append_ms"])
    return Entry(origin, datum["record_key"], datum["value"])


def register_of(datum: dict[str, Any]) -> Register:
    """The register that `register_datum` made data of."""
    claims = tuple(
        Claim(tuple(v) if isinstance(v := c["value"], list) else v, c["published_ms"], c["message_id"], c["source"])
        for c in datum["claims"]
    )
    return Register(Join(datum["kind"]), claims)
