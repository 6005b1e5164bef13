"""Control records: what may be said, and what is refused with which words."""

from __future__ import annotations

import json

import pytest

from tidings.control import Snapshot
from tidings.errors import BadControl
from tidings.predicate import Missing
from tidings.registers import Join
from tidings.topic import Timing


def applied(*records: dict | bytes, snapshot: Snapshot | None = None) -> Snapshot:
    snapshot = snapshot or Snapshot()
    for record in records:
        snapshot = snapshot.apply(snapshot.version + 1, f"{record['kind']}/{record['name']}", json.dumps(record).encode())
    return snapshot


TOPIC = {
    "kind": "topic",
    "name": "incident",
    "fields": {"what": "first", "severity": "max", "tags": "union"},
    "complete": ["what", "where", "when"],
    "window_ms": 60000,
    "hold_ms": 4000,
    "remember_ms": 10000,
}
WINDOWED = {"kind": "subscription", "name": "w", "subscriber": "w", "topic": "t"}
SUBSCRIPTION = {
    "kind": "subscription",
    "name": "ops-incidents",
    "subscriber": "ops",
    "broker": "b1",
    "topic": "incident",
    "where": "severity >= 2 and where = 'kitchen'",
    "missing": "optimistic",
    "every_ms": 5000,
    "fields": ["what", "where"],
    "deliver": "notify.ops",
}


def test_the_records_of_the_design():
    snapshot = applied(TOPIC, SUBSCRIPTION, {"kind": "broker", "name": "b1"})
    topic = snapshot.topic("incident")
    assert (topic.timing, topic.join_of("severity"), topic.join_of("other")) == (Timing(60000, 4000, 10000), Join.MAX, Join.FIRST)
    subscription = snapshot.subscriptions["ops-incidents"]
    assert (subscription.every_ms, subscription.missing, subscription.deliver) == (5000, Missing.OPTIMISTIC, "notify.ops")
    assert snapshot.by_topic == {("b1", "incident"): (subscription,)}
    assert snapshot.brokers == ("b1",)


def test_the_least_a_record_must_say():
    snapshot = applied(
        {"kind": "topic", "name": "t"}, {"kind": "subscription", "name": "s", "subscriber": "ops", "topic": "nothing"}
    )
    assert snapshot.topic("t").timing == Timing()
    assert snapshot.subscriptions["s"].deliver == "notify.ops"
    assert snapshot.subscriptions["s"].broker == "b1"


def test_the_pace_of_a_subscription():
    paced = {**SUBSCRIPTION, "settle_ms": 3000, "heartbeat_ms": 60000, "at_most": 12}
    plain = {"kind": "subscription", "name": "plain", "subscriber": "ops", "topic": "incident"}
    snapshot = applied(paced, plain)
    read, other = snapshot.subscriptions["ops-incidents"], snapshot.subscriptions["plain"]
    assert (read.settle_ms, read.heartbeat_ms, read.at_most) == (3000, 60000, 12)
    assert (other.settle_ms, other.heartbeat_ms, other.at_most) == (0, 0, 0)
    assert snapshot.by_topic == {("b1", "incident"): (read, other)}
    settling, capped = snapshot.asking["settle_ms"], snapshot.asking["at_most"]
    assert settling == capped == {("b1", "incident"): (read,)}
    assert [each for _, each in snapshot.beating] == [read]


def test_an_undeclared_topic_has_the_defaults_of_the_settings():
    timing = Timing(5000, 100, 5000)
    assert Snapshot(timing=timing).topic("anything").timing == timing


def test_a_declared_topic_takes_the_defaults_for_what_it_leaves_out():
    defaults = Timing(window_ms=60_000, hold_ms=100, remember_ms=5_000)
    declared = applied({"kind": "topic", "name": "t", "window_ms": 3_000}, snapshot=Snapshot(timing=defaults)).topic("t")
    assert declared.timing == Timing(3_000, 100, 3_000)
    declared = applied({"kind": "topic", "name": "t", "hold_ms": 9_000}, snapshot=Snapshot(timing=defaults)).topic("t")
    assert declared.timing == Timing(60_000, 9_000, 9_000)
    whole = applied({"kind": "topic", "name": "t", "window_ms": 90_000}).topic("t")
    assert whole.timing.remember_ms == 90_000


def test_a_null_value_deletes_and_a_later_record_replaces():
    snapshot = applied(TOPIC, {**TOPIC, "hold_ms": 0})
    assert snapshot.topic("incident").timing.hold_ms == 0
    assert snapshot.apply(9, "topic/incident", None).topic("incident").timing == Timing()
    assert snapshot.apply(9, "topic/unknown", None).records == snapshot.records


def test_a_snapshot_survives_as_json():
    snapshot = applied(TOPIC, SUBSCRIPTION)
    again = Snapshot.from_json(snapshot.to_json(), Timing())
    assert again == snapshot
    assert again.subscriptions == snapshot.subscriptions


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({**TOPIC, "fields": {"what": "newest"}}, "first, last, min, max, union"),
        ({**TOPIC, "fields": ["what"]}, "'fields' must be an object"),
        ({**TOPIC, "hold_ms": 20000}, "hold_ms <= remember_ms <= window_ms"),
        ({**TOPIC, "window_ms": "long"}, "'window_ms' must be an integer"),
        ({**TOPIC, "window_ms": 0, "hold_ms": 0, "remember_ms": 0}, "at least 1"),
        ({**TOPIC, "window_ms": True}, "'window_ms' must be an integer"),
        ({**TOPIC, "hold_ms": -1}, "'hold_ms' must be an integer"),
        ({**TOPIC, "gather": "no"}, "'gather' must be true or false"),
        ({**TOPIC, "colour": "red"}, "unknown property 'colour'"),
        ({**SUBSCRIPTION, "where": "severity >="}, "'where' does not parse"),
        ({**SUBSCRIPTION, "where": 7}, "'where' must be a string"),
        ({**SUBSCRIPTION, "missing": "maybe"}, "optimistic, patient"),
        ({**SUBSCRIPTION, "fields": "what"}, "'fields' must be a list of names"),
        ({**SUBSCRIPTION, "settle_ms": -1}, "'settle_ms' must be an integer of milliseconds"),
        ({**SUBSCRIPTION, "settle_ms": "5s"}, "'settle_ms' must be an integer of milliseconds"),
        ({**SUBSCRIPTION, "heartbeat_ms": True}, "'heartbeat_ms' must be an integer of milliseconds"),
        ({**SUBSCRIPTION, "heartbeat_ms": 1.5}, "'heartbeat_ms' must be an integer of milliseconds"),
        ({**SUBSCRIPTION, "at_most": 0}, "'at_most' must be an integer of times an hour from 1 to 3600, not 0"),
        ({**SUBSCRIPTION, "at_most": 3601}, "from 1 to 3600, not 3601"),
        ({**SUBSCRIPTION, "at_most": None}, "from 1 to 3600, not None"),
        ({**SUBSCRIPTION, "at_most": True}, "from 1 to 3600, not True"),
        ({**SUBSCRIPTION, "deliver": "control"}, "cannot be delivered"),
        ({**SUBSCRIPTION, "deliver": "publish.b1"}, "cannot be delivered"),
        ({**SUBSCRIPTION, "deliver": "__consumer_offsets"}, "cannot be delivered"),
        ({**SUBSCRIPTION, "deliver": "no spaces"}, "cannot be delivered"),
        ({**WINDOWED, "window": {"size_ms": 1000}}, "'window': 'of' must be an object"),
        ({**WINDOWED, "window": {"size_ms": 0, "of": {"n": "count()"}}}, "'size_ms' must be an integer of milliseconds"),
        ({**WINDOWED, "window": {"size_ms": 1000, "of": {"n": "mean(a)"}}}, "does not parse"),
        ({**WINDOWED, "window": {"size_ms": 1000, "of": {"n": "count()"}}, "every_ms": 5}, "'every_ms' is about single events"),
        ({"kind": "topic", "name": "t", "decider": "dice"}, "'decider' must be one of adock"),
        ({"kind": "subscription", "name": "s", "topic": "t"}, "'subscriber' is required"),
        ({"kind": "subscription", "name": "s", "subscriber": "ops"}, "'topic' is required"),
        ({"kind": "broker", "name": "b.1"}, "a broker's name"),
        ({"kind": "link", "name": "l", "a": "b1", "b": "b1"}, "two different brokers"),
        ({"kind": "link", "name": "l", "a": "b1", "b": "b2", "cost": -1}, "'cost' must be"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_record_that_cannot_be_applied_says_why(record, said):
    with pytest.raises(BadControl) as error:
        applied(record)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("", b"{}", "the key must be"),
        ("policy/x", b"{}", "the key must be"),
        ("topic/", b"{}", "the key must be"),
        ("topic/x", b"not json", "not JSON"),
        ("topic/x", b"[]", "must be a JSON object"),
        ("topic/x", b'{"kind": "topic", "name": "y"}', "name 'y'"),
        ("topic/x", b'{"kind": "broker", "name": "x"}', "kind 'broker'"),
        ("topic/x", b"[" * 100_000, "not JSON"),
        (
            "subscription/w",
            b'{"kind": "subscription", "name": "w", "subscriber": "w", "topic": "t", "window": '
            b'{"size_ms": 5, "of": {"n": "sum(a)", "n": "avg(a)"}}}',
            "the name 'n' stands twice",
        ),
    ],
)
def test_a_key_and_its_record_must_agree(key, value, said):
    with pytest.raises(BadControl) as error:
        Snapshot().apply(1, key, value)
    assert said in str(error.value)
