"""What crosses a link, as bytes: topic and key in front, so that routing can read them, then a body for each kind."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

from streaming.broker import blob
from streaming.broker.values import EventNews, HandOver, LinkRecord, PassedOn, Stamp
from streaming.gather.open_event import Span
from tidings import avro
from tidings.codec import MessageLimits, decode_message
from tidings.errors import BadMessage, Unreadable


def encode(record: LinkRecord, stamp: Stamp) -> bytes:
    """The record as it stands on a link topic."""
    from fastavro import schemaless_writer

    kind = type(record).__name__
    body = io.BytesIO()
    schemaless_writer(body, _schemas()[kind], _datum(record))
    topic, key = record.about
    sent = {"bucket": stamp.bucket, "number": stamp.number}
    return avro.schema("link").encode({"topic": topic, "key": key, **sent, "kind": kind, "body": body.getvalue()})


def decode(value: bytes | None, limits: MessageLimits) -> tuple[LinkRecord, Stamp]:
    """The record that a value on a link topic holds; raises `BadMessage` if it holds none."""
    from fastavro import schemaless_reader

    if value is None:
        raise BadMessage(Unreadable.NULL_VALUE, "a link record has a value")
    header = avro.schema("link").header
    if not value.startswith(header):
        raise BadMessage(Unreadable.UNKNOWN_SCHEMA, "this is no record of a link")
    try:
        datum = avro.schema("link").decode(value[len(header) :])
        body = schemaless_reader(io.BytesIO(datum["body"]), _schemas()[datum["kind"]], None)
        record = _record(datum["topic"], datum["key"], datum["kind"], body, limits)
        return record, Stamp(datum["bucket"], datum["number"])
    except (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise BadMessage(Unreadable.BAD_AVRO, f"truncated or damaged: {type(error).__name__}") from error


def _datum(record: LinkRecord) -> dict[str, Any]:
    match record:
        case PassedOn():
            return {"published_ms": record.published_ms, "hops": record.hops, "entry": blob.entry_datum(record.entry)}
        case EventNews():
            return {
                "event": record.event,
                "span": _span_datum(record.span),
                "knowledge": {name: blob.register_datum(register) for name, register in sorted(record.knowledge.items())},
                "reports": record.reports,
                "sources": record.sources,
                "complete": record.complete,
                "final": record.final,
            }
        case HandOver():
            return {
                "events": [blob.event_datum(event) for event in record.events],
                "closed": [{**_span_datum(span), "forget_ms": forget_ms} for span, forget_ms in record.closed],
                "known": dict(sorted(record.known.items())),
                "hops": record.hops,
            }


def _record(topic: str, key: str, kind: str, body: dict[str, Any], limits: MessageLimits) -> LinkRecord:
    if kind == PassedOn.__name__:
        entry = blob.entry_of(body["entry"])
        return PassedOn(decode_message(entry.value, limits), body["published_ms"], entry, body["hops"])
    if kind == EventNews.__name__:
        knowledge = {name: blob.register_of(register) for name, register in body["knowledge"].items()}
        counts = body["reports"], body["sources"], body["complete"], body["final"]
        return EventNews(topic, key, body["event"], _span(body["span"]), knowledge, *counts)
    events = tuple(blob.event_of(("", topic, key), event) for event in body["events"])
    closed = tuple((_span(grave), grave["forget_ms"]) for grave in body["closed"])
    return HandOver(topic, key, events, closed, body["known"], body["hops"])


def _span_datum(span: Span) -> dict[str, int]:
    return {"first_ms": span.first_ms, "last_ms": span.last_ms}


def _span(datum: dict[str, int]) -> Span:
    return Span(datum["first_ms"], datum["last_ms"])


@cache
def _schemas() -> dict[str, Any]:
    """A schema for each kind; what is also part of a broker's state is written as it is there."""
    from fastavro import parse_schema

    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind}

    def record(name: str, *fields: dict[str, Any]) -> Any:
        return parse_schema({"type": "record", "name": name, "namespace": "tidings.link", "fields": list(fields)})

    span = {"type": "record", "name": "Span", "fields": [field("first_ms", "long"), field("last_ms", "long")]}
    knowledge = {"type": "map", "values": _of_state("Register")}
    events = {"type": "array", "items": _of_state("OpenEvent")}
    closed = {"type": "array", "items": _of_state("Closed")}
    known = {"type": "map", "values": "long"}
    counts = [field("reports", "long"), field("sources", "long"), field("complete", "boolean"), field("final", "boolean")]
    return {
        "PassedOn": record(
            "PassedOn", field("published_ms", "long"), field("hops", "long"), field("entry", _of_state("EntryRecord"))
        ),
        "EventNews": record("EventNews", field("event", "string"), field("span", span), field("knowledge", knowledge), *counts),
        "HandOver": record(
            "HandOver", field("events", events), field("closed", closed), field("known", known), field("hops", "long")
        ),
    }


def _of_state(name: str) -> Any:
    """The part of the state's schema that has this name."""

    def find(part: Any) -> Any:
        if isinstance(part, dict) and part.get("name") == name and part.get("type") == "record":
            return part
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return next((found for each in inner if (found := find(each)) is not None), None)

    return find(blob.state_schema())
