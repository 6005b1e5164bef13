"""What crosses a link, as bytes: topic and key in front, so that routing can read them, then a body for each kind."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from streaming.model.address import Address
from streaming.model.entry import Entry
from streaming.model.event import OpenEvent, Span, Tombstone
from streaming.model.items import Aggregated, Publication, Through, Windowed
from streaming.model.links import EventNews, HandOver, LinkRecord, PassedOn, Stamp, WindowRecord
from streaming.wire import avro
from streaming.wire.message import MessageLimits, decode_message
from streaming.wire.packing import pack
from tidings.errors import BadMessage, Unreadable
from tidings.registers import Register


class _PassedOn(Struct, array_like=True):
    published_ms: int
    hops: int
    entry: Entry
    version: int = 0


class _EventNews(Struct, array_like=True):
    event: str
    span: Span
    knowledge: dict[str, Register]
    reports: int
    sources: int
    complete: bool
    final: bool
    version: int = 0


class _HandOver(Struct, array_like=True):
    events: tuple[OpenEvent, ...]
    closed: tuple[Tombstone, ...]
    unused: dict[str, int]
    """Of the release before: nobody reads it any more."""
    hops: int
    version: int = 0


_KINDS: dict[type[LinkRecord], str] = {
    PassedOn: "PassedOn",
    EventNews: "EventNews",
    HandOver: "HandOver",
    WindowRecord: "WindowRecord",
}
"""The word on the wire for each kind; a class may be named anew, its word may not."""

_Body: TypeAlias = _PassedOn | _EventNews | _HandOver | Windowed
_DECODERS: dict[str, msgspec.msgpack.Decoder[_Body]] = {
    _KINDS[PassedOn]: msgspec.msgpack.Decoder(_PassedOn),
    _KINDS[EventNews]: msgspec.msgpack.Decoder(_EventNews),
    _KINDS[HandOver]: msgspec.msgpack.Decoder(_HandOver),
    _KINDS[WindowRecord]: msgspec.msgpack.Decoder(Windowed),
}


def encode_link(record: LinkRecord, stamp: Stamp) -> bytes:
    """The record as it stands on a link topic."""
    topic, key = record.about
    sent = {"bucket": stamp.bucket, "number": stamp.number}
    datum = {"topic": topic, "key": key, **sent, "kind": _KINDS[type(record)], "body": pack(_body(record))}
    return avro.schema("link").encode(datum)


def decode_link(value: bytes | None, limits: MessageLimits) -> tuple[LinkRecord, Stamp]:
    """The record that a value on a link topic holds; raises `BadMessage` if it holds none."""
    if value is None:
        raise BadMessage(Unreadable.NULL_VALUE, "a link record has a value")
    header = avro.schema("link").header
    if not value.startswith(header):
        raise BadMessage(Unreadable.UNKNOWN_SCHEMA, "this is no record of a link")
    try:
        datum = avro.schema("link").decode(value[len(header) :])
        body = _DECODERS[datum["kind"]].decode(datum["body"])
        return _record(datum["topic"], datum["key"], body, limits), Stamp(datum["bucket"], datum["number"])
    except (msgspec.MsgspecError, ValueError, KeyError) as error:
        raise BadMessage(Unreadable.BAD_AVRO, f"truncated or damaged: {type(error).__name__}") from error


def _body(record: LinkRecord) -> _Body:
    match record:
        case PassedOn():
            return _PassedOn(record.published_ms, record.hops, record.entry, record.version)
        case EventNews():
            counts = record.reports, record.sources, record.complete, record.final, record.version
            return _EventNews(record.event, record.span, dict(record.knowledge), *counts)
        case HandOver():
            return _HandOver(record.events, record.closed, {}, record.hops, record.version)
        case WindowRecord():
            return record.item


def _record(topic: str, key: str, body: _Body, limits: MessageLimits) -> LinkRecord:
    match body:
        case _PassedOn():
            return PassedOn(decode_message(body.entry.value, limits), body.published_ms, body.entry, body.hops, body.version)
        case _EventNews():
            counts = body.reports, body.sources, body.complete, body.final, body.version
            return EventNews(topic, key, body.event, body.span, body.knowledge, *counts)
        case _HandOver():
            for event in body.events:
                event.at = Address("", topic, key)
            return HandOver(topic, key, body.events, body.closed, body.hops, body.version)
        case Publication() | Aggregated() | Through():
            return WindowRecord(topic, key, body)
