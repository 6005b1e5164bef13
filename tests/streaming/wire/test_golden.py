"""The bytes of every format as they are in Kafka, one golden file each: they are written like that, and read like that.

A file holds records by name. Bytes that are no text stand there in hexadecimal. A test that fails here says that services and
clients of the last release cannot read what this one writes, or the other way round.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streaming.model.address import Address
from streaming.model.books import Books
from streaming.model.entry import Entry, Origin
from streaming.model.event import Elsewhere, OpenEvent, Span, Tombstone
from streaming.model.items import Aggregated, Publication, Through
from streaming.model.ledger import Ledger
from streaming.model.links import EventNews, HandOver, LinkRecord, PassedOn, Stamp, WindowRecord
from streaming.model.outputs import FilterDecided, MessageReason, Offer, Outcome, Output, PutAside, Send, Tell
from streaming.model.windows import Clocked, Offered, WindowDecided, WindowInput, WindowOutput
from streaming.wire import offers
from streaming.wire.aside import Aside, aside_record, control_aside_record, read_aside
from streaming.wire.books import books_records, read_books
from streaming.wire.clock import Tick, TickerIdentity, decode_tick, encode_tick
from streaming.wire.decisions import read_decision
from streaming.wire.link import decode_link
from streaming.wire.message import MessageLimits, decode_message, encode_message
from streaming.wire.notification import decode_notification
from streaming.wire.outgoing import to_records
from streaming.wire.pulse import Wish, life_record, read_life, read_wish, wish_record
from streaming.wire.record import MOST_VALUE_BYTES, Outgoing, Record
from tidings import names
from tidings.aggregate import parse
from tidings.errors import Unreadable
from tidings.message import Message
from tidings.notification import Digested, Encoding, Notification, Reason, ToldWindow
from tidings.partial import added, empty
from tidings.registers import Claim, Join, Register

GOLDEN = Path(__file__).parent / "golden"
LIMITS = MessageLimits()
SERVICE = "s1"
TICKER = TickerIdentity(SERVICE, "secret")
ENTERED_MS = 1_800_000_000_250


@dataclass(frozen=True)
class Example:
    """A value, and the record that says it. ``read`` gives the value back."""

    value: Any
    write: Callable[[Any], Outgoing]
    read: Callable[[Record], Any]
    found: Any = None
    """What ``read`` gives, if it is not the value itself."""


# ---- what is said -----------------------------------------------------------------------------------------------------

MESSAGE = Message(
    "incident",
    "5th and Main",
    {"what": "fire", "injured": 2, "smoke": 0.5, "out": False, "units": ("E1", "L7"), "cause": None},
    source="A",
    id="A-17",
    published_ms=1_800_000_000_000,
)
BRIEF = Message("incident", "5th and Main", {"what": "Brand, Küche"})

NOTIFICATION = Notification(
    id="5f0c6b1e2a9d4c37",
    subscriber="ops",
    subscription="ops",
    topic="incident",
    key="5th and Main",
    event="9b3d5a7c11e0f264",
    revision=2,
    reason=Reason.COMPLETE,
    news={"when": "08:14", "units": ("E1", "L7"), "injured": 2},
    reports=3,
    sources=2,
    first_ms=1_800_000_000_000,
    last_ms=1_800_000_004_000,
    conflicts={"what": ("flood", None)},
)
DIGEST = Notification(
    "1d2f", "press", "press", "incident", "5th and Main", "", 1, Reason.DIGEST, {}, 0, 0, 1_800_000_000_000, 1_800_000_003_000,
    digest=(Digested("9b3d5a7c11e0f264", {"what": "fire", "smoke": 0.5}, 1_800_000_000_000, 1_800_000_003_000),),
)  # fmt: skip
AGGREGATE = Notification(
    "77aa", "desk", "speed", "reading", "", "", 1, Reason.AGGREGATE, {"avg(speed)": 51.5, "count": 4}, 4, 0,
    1_800_000_000_000, 1_800_000_009_000,
    window=ToldWindow(1_800_000_000_000, 1_800_000_010_000, left_out={"avg(speed)": 1}),
)  # fmt: skip
COUNTED = Notification(
    "77ab", "desk", "last-hundred", "reading", "", "", 2, Reason.AGGREGATE, {"max(speed)": 80}, 100, 0,
    1_800_000_000_000, 1_800_000_009_000, window=ToldWindow(100, 200, counted=True),
)  # fmt: skip

ENTRY = Entry(Origin("publish.b1", 1, 42, ENTERED_MS), b"incident/5th and Main", encode_message(BRIEF))
KNOWN = {"what": Register(Join.FIRST, (Claim("fire", 1_800_000_000_000, "A-17", "A"), Claim("flood", 1_800_000_000_001, "B-1")))}
SPAN = Span(1_800_000_000_000, 1_800_000_004_000)
OPEN = OpenEvent(
    "9b3d5a7c11e0f264", Address("", "incident", "5th and Main"), "c0ffee", ENTERED_MS, SPAN, ENTERED_MS, KNOWN, 3, {17}, 1, 1,
    {"what"}, ENTERED_MS + 500, True, {"ops": Ledger({"what": 99}, 1, ENTERED_MS)}, {"b3": Ledger()}, Elsewhere(2, 1, False),
    [ENTRY], {"when"}, ENTRY.origin,
)  # fmt: skip
GRAVE = Tombstone(SPAN, ENTERED_MS + 60_000, "e0", {"what": 5}, {"ops": Ledger({"what": 99}, 1, ENTERED_MS, True)})
OF = tuple((text, parse(text)) for text in ("count()", "avg(speed)"))
PARTIAL = empty(OF)
added(PARTIAL, OF, 1_800_000_001_000, "m1", {"speed": 50.5})
PUBLICATION = Publication(
    "road 7", "m1", 1_800_000_001_000, ENTERED_MS, ("publish.b1", 1, 42), {"speed": 50.5, "lanes": ("l", "r")}, (("i1", 7),)
)
STAMP = Stamp("s1/3", 17)

PUT_LATE = PutAside(ENTRY.origin, Outcome.LATE, MessageReason.WINDOW_CLOSED, "its window closed 3 s before", ENTRY)
PUT_DEAD = PutAside(Origin("publish.b1", 0, 7, ENTERED_MS), Outcome.DEAD_LETTERED, Unreadable.BAD_JSON, "half a \ud800 pair")
PUT_MERGED = PutAside(ENTRY.origin, Outcome.LATE, MessageReason.CUT_OFF, "no link led to 'b5'", ENTRY, merged=True)

WINDOW_CHOICE = WindowDecided(
    "b1", "b2", "reading", "speed", 10_000, 20_000, "adock", "aggregate", "in-cover", 12, 1, {"forward": 12, "aggregate": 1}
)
FILTER_CHOICE = FilterDecided(
    "b1",
    "incident",
    10_000,
    20_000,
    "profile",
    "40.0% of 20 offered were wanted: asking pays",
    20,
    8,
    {"event": 20, "profile": 8},
)

BOOKS = Books(
    received=7,
    outcomes=Counter({("told", "first"): 2, ("redundant", "known"): 4, ("held", "holding"): 1}),
    notifications=Counter({"first": 2}),
    conflicts=1,
    left_out=Counter({"limits.union_items": 3}),
    cancelled=Counter({"settle": 1}),
    sent=Counter({("b2", "PassedOn"): 3}),
    heard=Counter({("b2", "EventNews"): 2, ("b2", "Through"): 1}),
    heard_bytes=Counter({"b2": 640}),
    unsent=Counter({("b2", "known"): 4}),
    windows=Counter({("b2", "aggregate"): 1, ("b2", "sent"): 1}),
    waited=Counter({"b3": 1}),
    window_items=Counter({("b2", "offered"): 5, ("b2", "counted"): 5}),
)


# ---- how it is written and read ---------------------------------------------------------------------------------------


def done(output: Output | WindowOutput) -> Outgoing:
    """The record for something that a pipeline says is to be done."""
    [record] = to_records([output], SERVICE, 3)
    return record


def published(encoding: Encoding) -> Callable[[Message], Outgoing]:
    def write(message: Message) -> Outgoing:
        return Outgoing("publish.b1", names.record_key(message.topic, message.key), encode_message(message, encoding), [])

    return write


def told(encoding: Encoding) -> Callable[[Notification], Outgoing]:
    return lambda notification: done(Tell("notify.ops", encoding, notification, 0))


def sent(record: LinkRecord) -> Outgoing:
    return done(Send("b1", "b2", record, STAMP, 0))


def marked(version: int) -> Outgoing:
    return Outgoing("publish.b1", None, TICKER.mark(version), [])


def ticked(tick: Tick) -> Outgoing:
    return Outgoing(names.CLOCK, None, encode_tick(tick), [])


def counted(bucket: int | str) -> Callable[[Books], Outgoing]:
    def write(books: Books) -> Outgoing:
        [record] = books_records(SERVICE, bucket, {}, {"b1": books})
        return record

    return write


def cut_short(put: PutAside) -> Outgoing:
    """The golden file has only the beginning of a value that was too long."""
    record = aside_record(put, Entry(put.origin, None, b"x" * MOST_VALUE_BYTES))
    return record._replace(value=(record.value or b"")[:9])


def refused_control(detail: str) -> Outgoing:
    return control_aside_record(Record("control", 0, 4, ENTERED_MS, b"topic/incident", b'{"hold_ms": -1}'), detail)


def read_message(record: Record) -> Message:
    return decode_message(record.value, LIMITS)


def read_notification(record: Record) -> Notification:
    return decode_notification(record.value or b"")


def heard(record: Record) -> LinkRecord:
    found, stamp = decode_link(record.value, LIMITS)
    assert stamp == STAMP
    return found


def read_offers(record: Record) -> WindowInput:
    return offers.read(record.key or b"", record.value or b"")


def headers_of(record: Record) -> Aside:
    return read_aside(record.headers)


def books_in(record: Record) -> Books:
    found = read_books(record.value)
    assert found is not None
    assert f"{found.service}/{found.broker}/{found.bucket}".encode() == record.key
    return found.books


READ = ("clock-0", "publish.b1-0")
WHERE: Any = {"append_ms": ENTERED_MS, "offset": 5}
"""Where all records of the golden files stand."""
TICK = Tick(SERVICE, 9, READ, frozenset({"b1", "b2"}), 1_800_000_001_000, 1_800_000_000_123, 8, **WHERE)
LAST_TICK = Tick(SERVICE, 9, brokers=frozenset(), **WHERE)
FIRST_TICK = Tick(SERVICE, 0, READ, ms=1_800_000_001_000, **WHERE)

OFFERED = Offered("s1/3", Offer("b1", "b2", "a/reading", PUBLICATION, 17, "b0", True, ENTERED_MS, 9))
CLOCKED = Clocked(3, 8, ENTERED_MS, ((9, ENTERED_MS - 5),), (("b1", "reading", ENTERED_MS),))

EXAMPLES: dict[str, dict[str, Example]] = {
    "message": {
        "json": Example(MESSAGE, published(Encoding.JSON), read_message),
        "avro": Example(MESSAGE, published(Encoding.AVRO), read_message),
        "brief": Example(BRIEF, published(Encoding.JSON), read_message),
    },
    "notification": {
        "json": Example(NOTIFICATION, told(Encoding.JSON), read_notification),
        "avro": Example(NOTIFICATION, told(Encoding.AVRO), read_notification),
        "digest": Example(DIGEST, told(Encoding.JSON), read_notification),
        "digest avro": Example(DIGEST, told(Encoding.AVRO), read_notification),
        "window": Example(AGGREGATE, told(Encoding.JSON), read_notification),
        "counted window avro": Example(COUNTED, told(Encoding.AVRO), read_notification),
    },
    "link": {
        "passed on": Example(PassedOn(BRIEF, ENTERED_MS, ENTRY, 1, 9), sent, heard),
        "event news": Example(
            EventNews("incident", "5th and Main", "9b3d5a7c11e0f264", SPAN, KNOWN, 3, 2, True, False, 9), sent, heard
        ),
        "hand-over": Example(HandOver("incident", "5th and Main", (OPEN,), (GRAVE,), 1, 9), sent, heard),
        "window publication": Example(WindowRecord("reading", "road 7", PUBLICATION), sent, heard),
        "window aggregate": Example(WindowRecord("reading", "", Aggregated("i1", 1_800_000_000_000, PARTIAL)), sent, heard),
        "window mark": Example(WindowRecord("reading", "", Through(1_800_000_010_000, (("i1", 5),))), sent, heard),
    },
    "clock": {
        "mark": Example(9, marked, lambda record: TICKER.version_in(record.value or b"")),
        "tick": Example(TICK, ticked, decode_tick),
        "last tick": Example(LAST_TICK, ticked, decode_tick),
        "tick of a service with all brokers": Example(FIRST_TICK, ticked, decode_tick),
    },
    "pulse": {
        "wish": Example(Wish("s1/3", ENTERED_MS), lambda wish: wish_record(SERVICE, 3, wish.wants_ms), read_wish),
        "sign of life": Example(TICK, life_record, read_life),
    },
    "offers": {
        "offer": Example(OFFERED, lambda said: done(said.offer), read_offers),
        "clock": Example(CLOCKED, lambda said: offers.clock_record(SERVICE, said), read_offers),
    },
    "decisions": {
        "window": Example(WINDOW_CHOICE, done, lambda record: read_decision(record.value)),
        "filter": Example(FILTER_CHOICE, done, lambda record: read_decision(record.value)),
    },
    "books": {
        "bucket": Example(BOOKS, counted(3), books_in),
        "bucket of links": Example(Books(), counted("w0"), books_in),
    },
    "aside": {
        "late": Example(PUT_LATE, done, headers_of, Aside(PUT_LATE.reason, PUT_LATE.detail, ENTRY.origin)),
        "dead letter": Example(
            PUT_DEAD, cut_short, headers_of, Aside(PUT_DEAD.reason, "half a ? pair", PUT_DEAD.origin, cut=True)
        ),
        "merged": Example(PUT_MERGED, done, headers_of, Aside(PUT_MERGED.reason, PUT_MERGED.detail, ENTRY.origin, merged=True)),
        "control": Example(
            "'hold_ms' must not be negative",
            refused_control,
            headers_of,
            Aside("bad-control", "'hold_ms' must not be negative", Origin("control", 0, 4, ENTERED_MS)),
        ),
    },
}
NAMED = [pytest.param(name, example, id=f"{name}: {example}") for name, found in EXAMPLES.items() for example in found]


def said(data: bytes | None) -> Any:
    """Bytes as a golden file has them."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"hex": (data or b"").hex()}


def data(said: Any) -> bytes | None:
    """What `said` wrote."""
    return bytes.fromhex(said["hex"]) if isinstance(said, dict) else None if said is None else said.encode()


def described(written: Outgoing) -> dict[str, Any]:
    kafka_topic, key, value, headers = written
    datum = {"kafka_topic": kafka_topic, "key": said(key), "value": said(value)}
    return datum | ({"headers": {name: said(header) for name, header in headers}} if headers else {})


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return found


def record_of(datum: dict[str, Any]) -> Record:
    headers = tuple((name, data(value)) for name, value in datum.get("headers", {}).items())
    return Record(datum["kafka_topic"], 0, 5, ENTERED_MS, data(datum["key"]), data(datum["value"]), headers)


def test_every_format_has_its_golden_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(EXAMPLES)
    assert {name: list(golden(name)) for name in EXAMPLES} == {name: list(found) for name, found in EXAMPLES.items()}


@pytest.mark.parametrize(("name", "example"), NAMED)
def test_it_is_written_as_ever(name: str, example: str) -> None:
    each = EXAMPLES[name][example]
    assert described(each.write(each.value)) == golden(name)[example]


@pytest.mark.parametrize(("name", "example"), NAMED)
def test_it_is_read_as_ever(name: str, example: str) -> None:
    each = EXAMPLES[name][example]
    expected = each.value if each.found is None else each.found
    assert each.read(record_of(golden(name)[example])) == expected
