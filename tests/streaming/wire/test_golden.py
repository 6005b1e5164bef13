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
from types import SimpleNamespace
from typing import Any

import pytest

from clients.books import NewestBooks
from clients.control import Tick, read_tick
from clients.decisions import read_decision
from clients.log import Record
from service.clock.keeper import ControlKeeper
from service.clock.ticker import Ticker
from streaming.model.address import Address
from streaming.model.books import Books
from streaming.model.entry import Entry, Origin
from streaming.model.event import Elsewhere, OpenEvent, Span, Tombstone
from streaming.model.items import Aggregated, Publication, Through
from streaming.model.ledger import Ledger
from streaming.model.links import EventNews, HandOver, LinkRecord, PassedOn, Stamp, WindowRecord
from streaming.model.outputs import FilterDecided, MessageReason, Offer, Outcome, PutAside, Send, Tell
from streaming.model.windows import Clocked, Offered, WindowDecided
from streaming.spark import events, windows
from streaming.wire import crossing, offers
from streaming.wire.codec import MessageLimits, decode_message, decode_notification, encode_message
from streaming.wire.inputs import MOST_VALUE_BYTES, TickerIdentity
from tidings import names
from tidings.aggregate import parse
from tidings.errors import BadControl, Unreadable
from tidings.message import Message
from tidings.notification import Digested, Encoding, Notification, Reason, ToldWindow
from tidings.partial import added, empty
from tidings.registers import Claim, Join, Register

GOLDEN = Path(__file__).parent / "golden"
LIMITS = MessageLimits()
SERVICE = "s1"
ENTERED_MS = 1_800_000_000_250

Written = tuple[str, bytes | None, bytes | None, list[tuple[str, bytes]]]
"""Kafka topic, key, value and headers."""


@dataclass(frozen=True)
class Example:
    """A value, and the record that says it. ``read`` gives the value back."""

    value: Any
    write: Callable[[Any], Any]
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


def published(encoding: Encoding) -> Callable[[Message], Written]:
    def write(message: Message) -> Written:
        return "publish.b1", names.record_key(message.topic, message.key), encode_message(message, encoding), []

    return write


def told(encoding: Encoding) -> Callable[[Notification], Written]:
    return lambda notification: one(events.to_records([Tell("notify.ops", encoding, notification, 0)], None, SERVICE, 3))


def one(records: Any) -> Any:
    [record] = records
    return record


def sent(record: LinkRecord) -> Written:
    first, second = (
        one(events.to_records([Send("b1", "b2", record, STAMP, 0)], None, SERVICE, 3)),
        one(windows.to_records([Send("b1", "b2", record, STAMP, 0)])),
    )
    assert first == second
    return first


def heard(record: Record) -> LinkRecord:
    found, stamp = crossing.decode(record.value, LIMITS)
    assert stamp == STAMP
    return found


class Producer:
    def __init__(self) -> None:
        self.records: list[Written] = []

    def produce(self, topic: str, value: Any = None, partition: int = -1, key: Any = None, headers: Any = None, **_: Any) -> None:
        self.records.append((topic, key, value.encode() if isinstance(value, str) else value, headers or []))

    def poll(self, _: float) -> None: ...

    def flush(self, *_: float) -> None: ...


def ticked(said: tuple[int, tuple[int | None, int], frozenset[str] | None]) -> list[Written]:
    version, done, brokers = said
    producer = Producer()
    connection: Any = SimpleNamespace(producer=lambda **_: producer)
    ticker = Ticker(connection, TickerIdentity(SERVICE, "secret"), 1000, brokers)
    ticker._done = done
    ticker.adopt(version, {"publish.b1": 1})
    ticker.tick()
    ticker._leave()
    return producer.records


def refused_control(said: tuple[Origin, str]) -> Written:
    origin, detail = said
    message: Any = SimpleNamespace(
        timestamp=lambda: (1, origin.append_ms),
        partition=lambda: origin.partition,
        offset=lambda: origin.offset,
        key=lambda: b"topic/incident",
        value=lambda: b'{"hold_ms": -1}',
    )
    keeper: Any = SimpleNamespace(_producer=Producer())
    ControlKeeper._dead_letter(keeper, message, BadControl("topic/incident", detail))
    return keeper._producer.records[0]


def put_aside(output: PutAside) -> Written:
    value = b"x" * MOST_VALUE_BYTES if output is PUT_DEAD else b""
    record: Any = output.entry or Entry(output.origin, None, value)
    topic, key, value, headers = events.aside_record(output, record)
    return topic, key, value[:9] if output is PUT_DEAD else value, headers


def read_aside(record: Record) -> list[str]:
    """What is read of the headers today: by the proof and by the verdict of chaos."""
    said = {name: (value or b"").decode() for name, value in record.headers}
    return [said[name] for name in ("reason", "detail", "origin", "partition", "offset")] + ["merged"] * ("merged" in said)


def read_books(record: Record) -> Books:
    newest = NewestBooks()
    newest.take(record.value)
    return newest.by_broker()["b1"]


def read_mark(record: Record) -> int | None:
    return TickerIdentity(SERVICE, "secret").version_in(record.value or b"")


TICK = (9, (1_800_000_000_123, 8), frozenset({"b1", "b2"}))
EXAMPLES: dict[str, dict[str, Example]] = {
    "message": {
        "json": Example(MESSAGE, published(Encoding.JSON), lambda record: decode_message(record.value, LIMITS)),
        "avro": Example(MESSAGE, published(Encoding.AVRO), lambda record: decode_message(record.value, LIMITS)),
        "brief": Example(BRIEF, published(Encoding.JSON), lambda record: decode_message(record.value, LIMITS)),
    },
    "notification": {
        "json": Example(NOTIFICATION, told(Encoding.JSON), lambda record: decode_notification(record.value or b"")),
        "avro": Example(NOTIFICATION, told(Encoding.AVRO), lambda record: decode_notification(record.value or b"")),
        "digest": Example(DIGEST, told(Encoding.JSON), lambda record: decode_notification(record.value or b"")),
        "digest avro": Example(DIGEST, told(Encoding.AVRO), lambda record: decode_notification(record.value or b"")),
        "window": Example(AGGREGATE, told(Encoding.JSON), lambda record: decode_notification(record.value or b"")),
        "counted window avro": Example(COUNTED, told(Encoding.AVRO), lambda record: decode_notification(record.value or b"")),
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
        "mark": Example(TICK, lambda said: ticked(said)[0], read_mark, 9),
        "tick": Example(
            TICK,
            lambda said: ticked(said)[1],
            read_tick,
            Tick(SERVICE, 9, ("clock-0", "publish.b1-0"), ENTERED_MS, frozenset({"b1", "b2"}), 5),
        ),
        "last tick": Example(TICK, lambda said: ticked(said)[2], read_tick, Tick(SERVICE, 9, (), ENTERED_MS, frozenset(), 5)),
        "tick of a service with all brokers": Example(
            (0, (None, 0), None),
            lambda said: ticked(said)[1],
            read_tick,
            Tick(SERVICE, 0, ("clock-0", "publish.b1-0"), ENTERED_MS, None, 5),
        ),
    },
    "offers": {
        "offer": Example(
            Offered("s1/3", Offer("b1", "b2", "a/reading", PUBLICATION, 17, "b0", True, ENTERED_MS, 9)),
            lambda said: one(events.to_records([said.offer], None, SERVICE, 3)),
            lambda record: offers.read(record.key or b"", record.value or b""),
        ),
        "clock": Example(
            Clocked(3, 8, ENTERED_MS, ((9, ENTERED_MS - 5),), (("b1", "reading", ENTERED_MS),)),
            lambda said: (names.OFFERS, *offers.clock_record(SERVICE, said), []),
            lambda record: offers.read(record.key or b"", record.value or b""),
        ),
    },
    "decisions": {
        "window": Example(
            WINDOW_CHOICE, lambda said: one(windows.to_records([said])), lambda record: read_decision(record.value)
        ),
        "filter": Example(
            FILTER_CHOICE,
            lambda said: one(events.to_records([said], None, SERVICE, 3)),
            lambda record: read_decision(record.value),
        ),
    },
    "books": {
        "bucket": Example(BOOKS, lambda said: one(events.books_records(SERVICE, 3, {}, {"b1": said})), read_books),
        "bucket of links": Example(Books(), lambda said: one(events.books_records(SERVICE, "w0", {}, {"b1": said})), read_books),
    },
    "aside": {
        "late": Example(
            PUT_LATE, put_aside, read_aside, ["window-closed", "its window closed 3 s before", "publish.b1", "1", "42"]
        ),
        "dead letter": Example(PUT_DEAD, put_aside, read_aside, ["bad-json", "half a ? pair", "publish.b1", "0", "7"]),
        "merged": Example(
            PUT_MERGED, put_aside, read_aside, ["cut-off", "no link led to 'b5'", "publish.b1", "1", "42", "merged"]
        ),
        "control": Example(
            (Origin("control", 0, 4, ENTERED_MS), "'hold_ms' must not be negative"),
            refused_control,
            read_aside,
            ["bad-control", "'hold_ms' must not be negative", "control", "0", "4"],
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


def described(written: Written) -> dict[str, Any]:
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
def test_it_is_written_as_ever(name: str, example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_800_000_001_000_000_000)
    each = EXAMPLES[name][example]
    assert described(each.write(each.value)) == golden(name)[example]


@pytest.mark.parametrize(("name", "example"), NAMED)
def test_it_is_read_as_ever(name: str, example: str) -> None:
    each = EXAMPLES[name][example]
    expected = each.value if each.found is None else each.found
    assert each.read(record_of(golden(name)[example])) == expected
