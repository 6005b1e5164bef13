"""What kinds of control records say to the rest of the house; and that one more needs nothing but itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tidings import names
from tidings.control import Snapshot
from tidings.control.files import read_text
from tidings.control.kind import Kind
from tidings.control.kinds import KINDS
from tidings.control.kinds.broker import BROKER
from tidings.control.kinds.link import LINK
from tidings.control.reader import Reader
from tidings.errors import BadControl
from tidings.subscription import Subscription
from tidings.topic import Timing, Topic


def applied(*records: dict[str, Any]) -> Snapshot:
    snapshot = Snapshot()
    for version, record in enumerate(records, 1):
        snapshot = snapshot.apply(version, f"{record['kind']}/{record['name']}", json.dumps(record).encode())
    return snapshot


def test_every_kind_is_listed_by_its_own_name():
    assert [*KINDS] == [kind.name for kind in KINDS.values()]
    assert {"topic", "subscription", "broker", "link", "advertisement"} <= KINDS.keys()


def test_records_are_read_by_kind_and_in_the_order_of_their_names():
    snapshot = applied(*({"kind": "broker", "name": name} for name in ("b2", "b10", "b1")))
    assert [*snapshot.of(BROKER)] == ["b1", "b10", "b2"]
    assert snapshot.of(LINK) == {}


def test_without_any_broker_there_is_one():
    assert [*Snapshot().of(BROKER)] == ["b1"]
    assert [*applied({"kind": "broker", "name": "b2"}).of(BROKER)] == ["b2"]


def test_the_kafka_topics_that_records_ask_for():
    snapshot = applied(
        {"kind": "subscription", "name": "z", "subscriber": "z", "topic": "t"},
        {"kind": "subscription", "name": "y", "subscriber": "y", "topic": "t", "deliver": "notify.z"},
        {"kind": "subscription", "name": "a", "subscriber": "a", "topic": "t", "deliver": "desk"},
        {"kind": "link", "name": "l", "a": "b2", "b": "b1"},
        {"kind": "link", "name": "again", "a": "b1", "b": "b2"},
        {"kind": "broker", "name": "b2"},
        {"kind": "broker", "name": "b1"},
    )
    asked = [(each.name, each.family) for each in snapshot.kafka_topics]
    assert asked == [
        ("publish.b1", names.PUBLICATIONS),
        ("publish.b2", names.PUBLICATIONS),
        ("link.b1.b2", names.LINKS),
        ("link.b2.b1", names.LINKS),
        ("desk", names.DELIVERIES),
        ("notify.z", names.DELIVERIES),
    ]
    assert [each.name for each in Snapshot().kafka_topics] == ["publish.b1"]


def test_what_somebody_may_have_meant_otherwise():
    snapshot = applied(
        {"kind": "topic", "name": "t", "filter": "rendezvous", "rendezvous": "b7"},
        {"kind": "subscription", "name": "s", "subscriber": "s", "topic": "other", "broker": "b8"},
        {"kind": "advertisement", "name": "a", "topic": "t", "broker": "b9"},
    )
    assert list(snapshot.doubts()) == [
        ("advertisement/a", "names the broker 'b9', which is not in the overlay"),
        ("subscription/s", "names the broker 'b8', which is not in the overlay"),
        ("subscription/s", "the topic 'other' is not declared; it has the defaults"),
        ("topic/t", "names the broker 'b7', which is not in the overlay"),
    ]


# ---- one more kind ----------------------------------------------------------------------------------------------------


def _read(r: Reader, _defaults: Timing) -> tuple[str, str]:
    made = r.name, r.text("of")
    r.end()
    return made


def _doubts(made: tuple[str, str], snapshot: Snapshot) -> Iterator[str]:
    if made[1] not in snapshot.declared:
        yield f"nobody declares {made[1]!r}"


ECHO: Kind[tuple[str, str]] = Kind(
    "echo",
    _read,
    declares=lambda made: (Topic(made[0], gather=False),),
    subscribes=lambda made: (Subscription(f"echo/{made[0]}", "echo", "b1", made[1], "echoes"),),
    advertises=lambda made: ((made[0], "b1"),),
    kafka_topics=lambda _: (names.AskedTopic("echoes", names.DELIVERIES),),
    doubts=_doubts,
)
"""Something that is subscribed to like a topic, and made of another."""


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setitem(KINDS, "echo", ECHO)
    return {"kind": "echo", "name": "e", "of": "t"}


def test_one_more_kind_is_checked_by_what_it_reads(echo: dict[str, Any]):
    assert read_text(json.dumps(echo), "f") == [("echo/e", echo)]
    with pytest.raises(BadControl) as error:
        read_text(json.dumps({**echo, "of": 7}), "f")
    assert (error.value.about, "'of' must be a string" in error.value.detail) == (("of",), True)
    with pytest.raises(BadControl, match=r"a kind of: .*broker, .*echo, "):
        Snapshot().apply(1, "other/x", b"{}")


def test_one_more_kind_can_be_subscribed_to_like_a_topic(echo: dict[str, Any]):
    snapshot = applied(echo, {"kind": "subscription", "name": "s", "subscriber": "s", "topic": "e"})
    assert snapshot.topic("e").gather is False
    assert [*snapshot.doubts()] == [("echo/e", "nobody declares 't'")]
    assert snapshot.advertised == {"e": {"b1"}}
    assert [each.name for each in snapshot.kafka_topics] == ["publish.b1", "echoes", "notify.s"]


def test_what_one_more_kind_asks_for_is_asked_since_its_record_is_there(echo: dict[str, Any]):
    snapshot = applied({"kind": "broker", "name": "b1"}, echo, {**echo, "of": "u"})
    [asked] = snapshot.by_topic["b1", "u"]
    assert (asked.name, asked.since) == ("echo/e", 2)


def test_one_more_kind_survives_as_json(echo: dict[str, Any]):
    snapshot = applied(echo)
    again = Snapshot.from_json(snapshot.to_json(), Timing())
    assert (again, again.subscriptions) == (snapshot, snapshot.subscriptions)
