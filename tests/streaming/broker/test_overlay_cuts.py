"""Behind a cut, and through changes that not everybody sees: what nobody else would say is said."""

from __future__ import annotations

from dataclasses import replace

from streaming.model.outputs import PutAside
from streaming.wire.message import MessageLimits, decode_message
from streaming.world.records import broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from tidings.message import Message
from topology.plan import Plan

CHAIN = [broker(f"b{n}") for n in range(1, 6)] + [link(f"b{n}", f"b{n + 1}") for n in range(1, 5)]


def message(fields: dict, key: str = "k", **more: object) -> Message:
    return Message("incident", key, fields, **more)


def simulated(*records: dict) -> Simulator:
    return Simulator(plan(*records), lambda *_: 10)


def told(simulator: Simulator, name: str) -> list[tuple[str, dict]]:
    found = [tell.notification for _, tell in simulator.told if tell.notification.subscription == name]
    return [(str(each.reason), dict(each.news)) for each in found]


def cut(records: list[dict]) -> list[dict]:
    return [r for r in records if r.get("name") != "b2-b3"]


def put_aside(simulator: Simulator) -> list[tuple[str, dict, bool]]:
    """The reason, what was put aside, and whether it is what several reports said together."""
    aside = [output for _, output in simulator.outputs if isinstance(output, PutAside)]
    return [
        (str(a.reason), dict(decode_message(a.entry.value, MessageLimits()).fields) if a.merged else {}, a.merged) for a in aside
    ]


def test_what_was_held_when_the_cut_came_is_put_aside_for_those_beyond() -> None:
    records = [*CHAIN, topic(window_ms=10_000, hold_ms=5_000), subscription("e", broker="b1")]
    simulator = simulated(*records)
    simulator.keep_outputs = True
    simulator.publish(0, "b4", message({"what": "fire", "where": "hall"}))
    simulator.adopt(plan(*cut(records)), at_ms=1000)
    simulator.run()
    assert told(simulator, "e") == []
    assert put_aside(simulator) == [("cut-off", {"what": "fire", "where": "hall"}, True)]
    assert all(books.balanced for books in simulator.books.values())


def test_who_subscribes_beyond_a_cut_is_owed_what_is_known() -> None:
    records = [*CHAIN, topic(window_ms=10_000), subscription("a", broker="b1")]
    simulator = simulated(*cut(records))
    simulator.keep_outputs = True
    simulator.publish(0, "b2", message({"what": "fire"}))
    simulator.adopt(plan(*cut(records), subscription("e", broker="b5")), at_ms=1000)
    simulator.publish(2000, "b1", message({"who": "ann"}))
    simulator.run()
    assert told(simulator, "a") == [("first", {"what": "fire"}), ("news", {"who": "ann"})]
    assert sorted(put_aside(simulator), key=str) == [("cut-off", {"what": "fire"}, True), ("cut-off", {}, False)]


def test_what_is_owed_is_said_once_however_many_brokers_know_it() -> None:
    records = [*CHAIN, topic(window_ms=10_000), *(subscription(f"s{n}", broker=f"b{n}") for n in (3, 4, 5))]
    simulator = simulated(*cut(records))
    simulator.keep_outputs = True
    simulator.publish(0, "b5", message({"what": "fire"}))
    simulator.adopt(plan(*cut(records), subscription("a", broker="b1")), at_ms=1000)
    simulator.run()
    assert put_aside(simulator) == [("cut-off", {"what": "fire"}, True)]


def test_a_broker_that_leaves_and_has_nobody_to_tell_puts_aside_what_it_knows() -> None:
    pair = [
        broker("b1"),
        broker("b2"),
        broker("b3"),
        link("b1", "b2"),
        subscription("s", broker="b1"),
        subscription("t", broker="b3"),
    ]
    simulator = simulated(*pair)
    simulator.keep_outputs = True
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.run(until_ms=100)
    simulator.adopt(plan(broker("b3"), subscription("t", broker="b3")), at_ms=1000)
    simulator.run(until_ms=2000)
    assert ("cut-off", {"what": "fire"}, True) in put_aside(simulator)


def test_what_is_kept_moves_with_the_gatherer_of_a_part() -> None:
    records = [*CHAIN, topic(window_ms=10_000), subscription("a", broker="b4"), subscription("e", broker="b1")]
    simulator = simulated(*cut(records))
    simulator.keep_outputs = True
    simulator.publish(0, "b5", message({"what": "fire"}))
    simulator.adopt(plan(*cut(records), topic(window_ms=10_000, filter="rendezvous", rendezvous="b5")), at_ms=1000)
    simulator.run()
    assert put_aside(simulator) == [("cut-off", {}, False)]


def test_what_is_kept_is_put_aside_when_the_last_link_goes() -> None:
    pair = [broker("b1"), broker("b2"), broker("b3"), topic(window_ms=60_000), subscription("s", broker="b2")]
    simulator = simulated(*pair, link("b1", "b3"))
    simulator.keep_outputs = True
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.adopt(plan(*pair), at_ms=1000)
    simulator.run(until_ms=2000)
    assert put_aside(simulator) == [("cut-off", {}, False)]


def test_a_measurement_that_no_link_leads_on_is_put_aside_at_once_by_the_broker_it_entered_at() -> None:
    records = [
        *CHAIN,
        topic(gather=False),
        subscription("a", broker="b1"),
        subscription("e", broker="b5", where="v >= 5"),
    ]
    simulator = simulated(*cut(records))
    simulator.keep_outputs = True
    simulator.publish(0, "b2", message({"v": 7}))
    simulator.publish(1, "b2", message({"v": 3}))
    simulator.run(until_ms=100)
    assert told(simulator, "a") == [("first", {"v": 7}), ("first", {"v": 3})]
    assert put_aside(simulator) == [("cut-off", {}, False)]
    assert all(books.balanced for books in simulator.books.values())
    assert sum(books.left_out["cut-off"] for books in simulator.books.values()) == 1


def test_a_broker_on_the_way_does_not_drop_a_last_value_that_is_stated_again_later() -> None:
    records = [*CHAIN, topic(early=True, fields={"state": "last"}), subscription("near", broker="b1")]
    simulator = simulated(*records)
    simulator.publish(0, "b1", message({"state": "red"}, published_ms=0))
    simulator.publish(1000, "b1", message({"state": "red"}, published_ms=1000))
    simulator.publish(2000, "b5", message({"state": "green"}, published_ms=500))
    simulator.run()
    assert told(simulator, "near") == [("first", {"state": "red"})]


def test_a_broker_that_was_away_and_came_back_is_told_again_also_by_one_that_never_saw_it_go() -> None:
    chain = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3"), subscription("s", broker="b3")]
    simulator = simulated(*chain)
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.run(until_ms=500)
    assert told(simulator, "s") == [("first", {"what": "fire"})]
    away = plan(*(each for each in chain if each["name"] != "b3"))
    back = Plan(replace(plan(*chain).snapshot, since={**plan(*chain).snapshot.since, "broker/b3": 9}))
    simulator.adopt(away, at_ms=1000, lag=lambda name: 0 if name == "b3" else 5000)  # only b3 sees that it was away
    simulator.adopt(back, at_ms=2000)
    simulator.run(until_ms=9000)
    assert told(simulator, "s") == [("first", {"what": "fire"})] * 2
