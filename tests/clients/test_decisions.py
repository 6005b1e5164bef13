"""Choices as they are read from Kafka, each once, and what they add up to."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from hypothesis import given
from hypothesis import strategies as st

from clients import decisions, following
from clients.connection import Connection
from clients.decisions import Choices, DecisionReader, WindowTraffic, crossed_by_books, read_decisions, total
from streaming.model.books import Books
from streaming.model.outputs import FilterDecided
from streaming.model.windows import WindowDecided
from streaming.wire.decisions import decision_dict, read_decision
from streaming.wire.outgoing import to_records
from streaming.wire.record import Record
from tidings import names
from tidings.errors import TidingsError

COUNTS = st.integers(0, 10**6)
WINDOWS = st.builds(
    WindowDecided,
    sender=st.sampled_from(["b1", "b2", "b-3"]),
    to=st.sampled_from(["b1", "b2", "b-3"]),
    choice=st.sampled_from(["forward", "aggregate"]),
    items=COUNTS,
    sent=COUNTS,
    would=st.dictionaries(st.sampled_from(["forward", "aggregate", "wad", "adock"]), COUNTS),
)

ONE = WindowDecided(
    "b1", "b2", "reading", "speed", 10_000, 20_000, "adock", "aggregate", "in-cover", 12, 1, {"forward": 12, "aggregate": 1}
)
OTHER = WindowDecided(
    "b1", "b2", "reading", "speed", 20_000, 30_000, "adock", "forward", "not-in-cover", 2, 2, {"forward": 2, "aggregate": 1}
)


def wire(decided: WindowDecided | FilterDecided) -> bytes:
    """As the service writes it."""
    [record] = to_records([decided], "s", 0)
    assert record.topic == names.DECISIONS
    return record.value or b""


# ---- records ----------------------------------------------------------------------------------------------------------


def spoiled(**changes: Any) -> bytes:
    datum = decision_dict(ONE) | changes
    return json.dumps({name: value for name, value in datum.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        spoiled(**{"from": 7}),
        spoiled(to=None),
        spoiled(topic=...),
        spoiled(subscription=...),
        spoiled(choice="sent"),
        spoiled(items=-1),
        spoiled(items=True),
        spoiled(sent="many"),
        spoiled(sent=2**70),
        spoiled(would=[]),
        spoiled(would={"forward": None}),
        spoiled(window={"start_ms": 0}),
        spoiled(window={"start_ms": 0, "end_ms": 10**18}),
        spoiled(to=...),
    ],
)
def test_what_is_no_choice_is_passed_over(value: bytes | None) -> None:
    with pytest.raises(ValueError, match="not a choice"):
        read_decision(value)
    assert Choices().take(value) is None


def test_a_choice_that_a_crash_wrote_again_counts_once() -> None:
    choices = Choices()
    assert [choices.take(wire(each)) for each in (ONE, OTHER, ONE, OTHER)] == [ONE, OTHER, None, None]


def test_what_is_remembered_is_bounded_and_the_latest_stays() -> None:
    choices = Choices(remember=2)
    for number in range(10):
        choices.take(spoiled(items=number))
    assert choices.take(spoiled(items=9)) is None
    assert choices.take(spoiled(items=0)) is not None
    assert len(choices._seen) == 2


# ---- what was saved ---------------------------------------------------------------------------------------------------


def test_what_two_choices_saved() -> None:
    crossed = WindowTraffic()
    crossed.add(ONE)
    crossed.add(OTHER)
    assert crossed.to_dict() == {
        "windows": 2,
        "forwarded": 1,
        "aggregated": 1,
        "sent": 3,
        "would": {"aggregate": 2, "forward": 14},
        "saved_against_forward": 11,
        "saved_against_aggregate": -1,
    }


@given(decided=st.lists(WINDOWS, max_size=20))
def test_the_books_and_the_choices_say_the_same_of_every_link(decided: list[WindowDecided]) -> None:
    """Brokers count as they choose, and whoever adds up the choices comes to the same."""
    books: dict[str, Books] = {}
    links: dict[tuple[str, str], WindowTraffic] = {}
    for each in decided:
        counts = books.setdefault(each.sender, Books()).windows
        counts[each.to, each.choice] += 1
        counts[each.to, "sent"] += each.sent
        for decider, count in each.would.items():
            counts[each.to, f"would-{decider}"] += count
        links.setdefault((each.sender, each.to), WindowTraffic()).add(each)
    found = crossed_by_books({name: Books.from_dict(json.loads(json.dumps(each.to_dict()))) for name, each in books.items()})
    assert {way: +each.counts for way, each in found.items()} == {way: +each.counts for way, each in links.items()}
    whole = total(links.values())
    assert whole.windows == len(decided)
    assert whole.saved_against("forward") == sum(each.saved_against("forward") for each in links.values())
    assert whole.sent == sum(each.sent for each in decided)


def test_books_without_windows_have_no_such_links() -> None:
    books = Books(received=1)
    books.windows["b2", "forward"] = 0
    assert crossed_by_books({"b1": books, "b2": Books()}) == {}


# ---- reading ----------------------------------------------------------------------------------------------------------


class FakeConsumer:
    """A consumer of one partition: it hands out records from where it was told to start."""

    def __init__(self, values: list[bytes | KafkaError]) -> None:
        self.values, self.there, self.position, self.closed = values, True, None, False

    def list_topics(self, **_: float) -> Any:
        topic = {names.DECISIONS: SimpleNamespace(partitions={0: None})} if self.there else {}
        return SimpleNamespace(topics={"other": SimpleNamespace(partitions={0: None}), **topic})

    def get_watermark_offsets(self, _at: Any, **_: float) -> tuple[int, int]:
        return 0, len(self.values)

    def incremental_assign(self, starts: list[Any]) -> None:
        assert self.position is None
        [start] = starts
        self.position = 0 if start.offset == OFFSET_BEGINNING else start.offset

    def poll(self, _timeout: float) -> Any:
        if self.position is None or self.position >= len(self.values):
            return None
        value = self.values[self.position]
        self.position += 1
        failed = isinstance(value, KafkaError)
        return SimpleNamespace(error=lambda: value if failed else None, value=lambda: None if failed else value)

    def close(self) -> None:
        self.closed = True


def reading(consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch, **options: bool) -> DecisionReader:
    monkeypatch.setattr(Connection, "consumer", lambda _self, **_: consumer)
    return DecisionReader(Connection("kafka:9092"), **options)


def received(reader: DecisionReader, turns: int = 6) -> list[Any]:
    return [found for _ in range(turns) if (found := reader.receive(0)) is not None]


def test_a_reader_hears_only_what_is_new_unless_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LOOK_FOR_PARTITIONS_S", 0.0)  # however often it looks, it starts once
    consumer = FakeConsumer([wire(ONE)])
    with reading(consumer, monkeypatch) as reader:
        assert received(reader) == []
        consumer.values.append(wire(OTHER))
        assert received(reader) == [OTHER]
    assert consumer.closed
    assert received(reading(FakeConsumer([wire(ONE)]), monkeypatch, from_beginning=True)) == [ONE]


def test_a_kafka_topic_that_appears_later_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer([wire(ONE)])
    consumer.there = False
    reader = reading(consumer, monkeypatch)
    assert received(reader) == []
    consumer.there = True
    reader._look_s = 0.0  # a second has passed
    assert received(reader) == [ONE]


def test_what_librdkafka_gets_over_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FakeConsumer([KafkaError(KafkaError._TRANSPORT), b"rubbish", wire(ONE), wire(ONE), wire(OTHER)])
    assert received(reading(consumer, monkeypatch, from_beginning=True)) == [ONE, OTHER]


def test_a_right_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reading(FakeConsumer([KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)]), monkeypatch, from_beginning=True)
    with pytest.raises(TidingsError, match="does not allow this"):
        reader.receive(0)


def test_all_there_are_now(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [wire(ONE), b"rubbish", None, wire(OTHER), wire(ONE)]
    records = [Record(names.DECISIONS, 0, offset, 0, None, value) for offset, value in enumerate(values)]
    asked: list[Any] = []
    monkeypatch.setattr(decisions, "read_all", lambda _connection, kafka_topics: asked.append(kafka_topics) or records)
    assert read_decisions(Connection("kafka:9092")) == [ONE, OTHER]
    assert asked == [[names.DECISIONS]]
