"""Many brokers, one event: told everywhere once, whichever broker gathers and whatever changes meanwhile."""

from __future__ import annotations

import pytest

from streaming.model.outputs import Outcome, PutAside
from streaming.world.records import advertisement, broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from tidings.message import Message
from tidings.topic import Filtering, Placement

CHAIN = [broker(f"b{n}") for n in range(1, 6)] + [link(f"b{n}", f"b{n + 1}") for n in range(1, 5)]
STAR = [broker(f"b{n}") for n in range(1, 6)] + [link("b1", f"b{n}") for n in range(2, 6)]


def message(fields: dict, key: str = "k", **more: object) -> Message:
    return Message("incident", key, fields, **more)


def told(simulator: Simulator, name: str) -> list[tuple[str, dict]]:
    return [
        (str(tell.notification.reason), dict(tell.notification.news))
        for _, tell in simulator.told
        if tell.notification.subscription == name
    ]


def simulated(*records: dict, delay_ms: int = 10) -> Simulator:
    return Simulator(plan(*records), lambda *_: delay_ms)


def test_a_message_reaches_subscribers_at_other_brokers_by_way_of_the_gatherer() -> None:
    simulator = simulated(*CHAIN, subscription("near", broker="b1"), subscription("far", broker="b5"))
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.run()
    assert told(simulator, "near") == told(simulator, "far") == [("first", {"what": "fire"})]
    at = {tell.notification.subscription: tell.at_ms for _, tell in simulator.told}
    assert at == {"near": 40, "far": 40}  # two links to b3, the centre, and two on


def test_what_is_known_crosses_no_link_again() -> None:
    simulator = simulated(*CHAIN, subscription("far", broker="b5"))
    for number, at in enumerate(["b1", "b2", "b5", "b3", "b1"]):
        simulator.publish(1000 * number, at, message({"what": "fire"}, source=at))
    simulator.publish(9000, "b4", message({"where": "kitchen"}))
    simulator.run()
    assert told(simulator, "far") == [("first", {"what": "fire"}), ("news", {"where": "kitchen"})]
    down = {pair: crossed.kinds["EventNews"] for pair, crossed in simulator.crossed.items() if crossed.kinds["EventNews"]}
    assert down == {("b3", "b4"): 2, ("b4", "b5"): 2}
    assert simulator.books["b3"].total(Outcome.REDUNDANT) == 4


def test_news_that_is_held_leaves_together_at_the_gatherer_and_waits_nowhere_else() -> None:
    simulator = simulated(*CHAIN, topic(hold_ms=4000), subscription("far", broker="b5"))
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.publish(1000, "b4", message({"where": "kitchen"}))
    simulator.run()
    assert told(simulator, "far") == [("first", {"what": "fire", "where": "kitchen"})]
    assert [tell.at_ms for _, tell in simulator.told] == [20 + 4000 + 20]


def test_a_link_carries_only_what_somebody_beyond_it_wants() -> None:
    simulator = simulated(
        *STAR,
        subscription("fires", broker="b2", where="what = 'fire'"),
        subscription("floods", broker="b3", where="what = 'flood'"),
    )
    simulator.publish(0, "b4", message({"what": "fire"}))
    simulator.publish(0, "b4", message({"what": "flood"}, key="other"))
    simulator.run()
    assert told(simulator, "fires") == [("first", {"what": "fire"})]
    assert told(simulator, "floods") == [("first", {"what": "flood"})]
    assert simulator.crossed["b1", "b2"].records == simulator.crossed["b1", "b3"].records == 1
    assert ("b1", "b5") not in simulator.crossed
    assert simulator.books["b1"].unsent["b2", "filtered"] == 1


def test_who_matches_late_is_told_all_there_is() -> None:
    simulator = simulated(*CHAIN, subscription("far", broker="b5", where="severity >= 3", missing="patient"))
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.publish(1000, "b2", message({"severity": 4}))
    simulator.run()
    assert told(simulator, "far") == [("first", {"what": "fire", "severity": 4})]


def test_only_wanted_fields_cross_and_those_the_predicates_ask_for() -> None:
    simulator = simulated(*CHAIN, subscription("far", broker="b5", fields=["what"], where="severity >= 3"))
    simulator.publish(0, "b3", message({"what": "fire", "severity": 4, "mood": "bad", "where": "here"}))
    simulator.run()
    assert told(simulator, "far") == [("first", {"what": "fire"})]
    crossed = simulator.crossed["b4", "b5"]
    assert crossed.records == 1


def test_a_broker_may_drop_early_what_the_gatherer_has_told_it() -> None:
    def crossed(early: bool) -> int:
        simulator = simulated(*CHAIN, topic(early=early), subscription("near", broker="b1"))
        for number in range(5):
            simulator.publish(1000 * number, "b1", message({"what": "fire"}, source=f"s{number}"))
        simulator.publish(9000, "b1", message({"what": "fire", "who": "ann"}))
        simulator.publish(9900, "b1", message({"what": "smoke"}, published_ms=9900))  # it disagrees: that is not known
        simulator.run()
        assert told(simulator, "near") == [("first", {"what": "fire"}), ("news", {"who": "ann"})]
        assert sum(books.conflicts for name, books in simulator.books.items() if name == "b3") == 1
        assert all(books.balanced for books in simulator.books.values())
        return simulator.crossed["b1", "b2"].records

    assert crossed(early=False) == 7
    assert crossed(early=True) == 3


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("filtering", Filtering)
def test_every_placement_and_filter_tells_the_same(placement: Placement, filtering: Filtering) -> None:
    simulator = simulated(
        *CHAIN,
        link("b1", "b5"),
        topic(gatherer=placement, filter=filtering),
        subscription("a", broker="b1"),
        subscription("b", broker="b4", where="what = 'fire'"),
        subscription("c", broker="b5", where="what = 'flood'"),
    )
    for at_ms, at, fields, key in [
        (0, "b2", {"what": "fire"}, "x"),
        (1000, "b3", {"where": "hall"}, "x"),
        (2000, "b5", {"what": "fire", "where": "hall"}, "x"),
        (3000, "b1", {"what": "flood"}, "y"),
    ]:
        simulator.publish(at_ms, at, message(fields, key))
    simulator.run()
    assert told(simulator, "a") == [("first", {"what": "fire"}), ("news", {"where": "hall"}), ("first", {"what": "flood"})]
    assert told(simulator, "c") == [("first", {"what": "flood"})] or placement == "none"
    assert ("first", {"what": "fire"}) in told(simulator, "b")
    assert all(books.balanced for books in simulator.books.values())


def test_event_forwarding_loads_every_link_and_profiles_only_those_that_lead_to_somebody() -> None:
    def crossed(filtering: str) -> int:
        wants = [subscription("s", broker="b2", where="what = 'flood'")]
        simulator = simulated(*STAR, topic(gather=False, filter=filtering), *wants)
        for number in range(10):
            simulator.publish(number, "b3", message({"what": "fire", "n": number}, key=str(number)))
        simulator.run()
        return simulator.link_messages

    assert crossed("event") == 10 * 4
    assert crossed("profile") == 0
    assert crossed("rendezvous") <= 10 * 2


def test_measurements_go_straight_and_repeats_are_dropped_where_they_meet() -> None:
    simulator = simulated(*CHAIN, topic(gather=False), subscription("far", broker="b5"))
    simulator.publish(0, "b1", message({"v": 1}, id="m1"))
    simulator.publish(5, "b2", message({"v": 1}, id="m1"))
    simulator.publish(1000, "b5", message({"v": 2}, id="m2"))
    simulator.run()
    assert told(simulator, "far") == [("first", {"v": 1}), ("first", {"v": 2})]


def test_an_advertised_topic_has_a_tree_between_those_who_take_part() -> None:
    simulator = simulated(*CHAIN, advertisement("cam", broker="b1"), subscription("s", broker="b2"))
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.publish(1000, "b5", message({"where": "hall"}))  # it did not say it would, and is heard all the same
    simulator.run()
    assert told(simulator, "s") == [("first", {"what": "fire"}), ("news", {"where": "hall"})]


# ---- moving -----------------------------------------------------------------------------------------------------------


def test_the_gatherer_moves_and_nothing_is_told_twice_or_lost() -> None:
    records = [*CHAIN, subscription("a", broker="b1"), subscription("b", broker="b4")]
    simulator = simulated(*records)
    simulator.publish(0, "b1", message({"what": "fire"}))
    grown = [broker(f"b{n}") for n in range(6, 10)] + [link(f"b{n}", f"b{n + 1}") for n in range(5, 9)]
    moved = plan(*records, *grown, subscription("c", broker="b9"))
    assert moved.route("incident").parts[0].gatherer == "b5"
    simulator.adopt(moved, at_ms=1000, lag=lambda name: 7 * int(name[1:]))
    simulator.publish(1005, "b2", message({"what": "fire", "who": "ann"}))
    simulator.publish(2000, "b1", message({"what": "fire", "where": "hall"}))
    simulator.run()
    for name in "ab":
        assert told(simulator, name) == [("first", {"what": "fire"}), ("news", {"who": "ann"}), ("news", {"where": "hall"})]
    learned = {field: value for _, news in told(simulator, "c") for field, value in news.items()}
    assert learned == {"what": "fire", "who": "ann", "where": "hall"}
    last = [tell.notification for _, tell in simulator.told][-1]
    assert last.reports == 3
    assert all(books.balanced for books in simulator.books.values())


def test_what_is_held_when_the_gatherer_moves_is_not_lost() -> None:
    records = [*CHAIN, topic(hold_ms=5000), subscription("a", broker="b1"), subscription("b", broker="b5")]
    simulator = simulated(*records)
    simulator.publish(0, "b2", message({"what": "fire"}))
    simulator.adopt(plan(*records, topic(hold_ms=5000, filter="rendezvous", rendezvous="b1")), at_ms=1000)
    simulator.run()
    assert told(simulator, "a") == told(simulator, "b") == [("first", {"what": "fire"})]
    assert all(books.balanced for books in simulator.books.values())


def test_a_straggler_is_late_also_at_the_new_gatherer() -> None:
    records = [*CHAIN, topic(window_ms=10_000), subscription("a", broker="b1")]
    simulator = simulated(*records)
    simulator.publish(0, "b2", message({"what": "fire"}, published_ms=0))
    simulator.publish(9000, "b2", message({"what": "fire"}, key="other", published_ms=9000))
    simulator.run(until_ms=11_000)
    simulator.adopt(plan(*records, topic(window_ms=10_000, filter="rendezvous", rendezvous="b1")), at_ms=11_000)
    simulator.run(until_ms=12_000)
    simulator.publish(12_000, "b4", message({"what": "fire"}, published_ms=5000))
    simulator.run()
    assert told(simulator, "a") == [("first", {"what": "fire"})] * 2
    assert simulator.books["b1"].total(Outcome.LATE) == 1


def test_a_broker_that_leaves_hands_over_what_it_gathered() -> None:
    records = [*STAR, subscription("a", broker="b2"), link("b2", "b3"), link("b3", "b4"), link("b4", "b5")]
    simulator = simulated(*records)
    simulator.publish(0, "b4", message({"what": "fire"}))
    simulator.run(until_ms=100)
    left = [r for r in records if r.get("name") != "b1" and "b1" not in (r.get("a"), r.get("b"))]
    simulator.adopt(plan(*left), at_ms=1000, lag=lambda name: 0 if name == "b1" else 30)
    simulator.publish(2000, "b5", message({"what": "fire", "who": "bob"}))
    simulator.run()
    assert told(simulator, "a") == [("first", {"what": "fire"}), ("news", {"who": "bob"})]


def test_a_late_subscriber_at_another_broker_is_told_what_is_known() -> None:
    simulator = simulated(*CHAIN)
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.publish(10, "b5", message({"where": "hall"}))
    simulator.adopt(plan(*CHAIN, subscription("late", broker="b4")), at_ms=1000)
    simulator.run()
    learned = {field: value for _, news in told(simulator, "late") for field, value in news.items()}
    assert learned == {"what": "fire", "where": "hall"}


# ---- a cut ------------------------------------------------------------------------------------------------------------


def cut(records: list[dict]) -> list[dict]:
    return [r for r in records if r.get("name") != "b2-b3"]


def test_a_cut_that_heals_in_time_costs_nothing() -> None:
    records = [*CHAIN, topic(window_ms=60_000), subscription("a", broker="b1"), subscription("e", broker="b5")]
    simulator = simulated(*cut(records))
    simulator.publish(0, "b2", message({"what": "fire"}))
    simulator.publish(0, "b4", message({"where": "hall"}))
    simulator.run(until_ms=1000)
    assert told(simulator, "a") == [("first", {"what": "fire"})]
    assert told(simulator, "e") == [("first", {"where": "hall"})]
    simulator.adopt(plan(*records), at_ms=2000)
    simulator.run()
    for name in "ae":
        assert {f: v for _, news in told(simulator, name) for f, v in news.items()} == {"what": "fire", "where": "hall"}
        assert len(told(simulator, name)) == 2
    assert sum(books.total(Outcome.LATE) for books in simulator.books.values()) == 0


def test_a_cut_that_does_not_heal_puts_aside_what_could_not_be_told() -> None:
    records = [*CHAIN, topic(window_ms=10_000), subscription("e", broker="b5")]
    simulator = simulated(*cut(records))
    simulator.keep_outputs = True
    simulator.publish(0, "b2", message({"what": "fire"}))
    simulator.run()
    aside = [output for _, output in simulator.outputs if type(output).__name__ == "PutAside"]
    assert [(a.outcome, a.reason) for a in aside] == [("late", "cut-off")]
    assert "b5" in aside[0].detail
    assert sum(books.total(Outcome.LATE) for books in simulator.books.values()) == 1
    assert all(books.balanced for books in simulator.books.values())


def forbidding(records: list[dict]) -> list[dict]:
    return [r | {"forbid": ["incident"]} if r.get("name") == "b2-b3" else r for r in records]


def put_aside(simulator: Simulator) -> list[tuple[str, str, str]]:
    return [(str(o.outcome), str(o.reason), o.detail) for _, o in simulator.outputs if isinstance(o, PutAside)]


@pytest.mark.parametrize("gatherer", ["centre", "none"])
def test_what_a_forbidden_link_keeps_from_a_subscriber_is_put_aside_when_the_event_ends(gatherer: str) -> None:
    records = [*CHAIN, topic(window_ms=10_000, gatherer=gatherer), subscription("a", broker="b1"), subscription("e", broker="b5")]
    simulator = simulated(*forbidding(records))
    simulator.keep_outputs = True
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.publish(100, "b1", message({"what": "fire"}))
    simulator.run()
    assert told(simulator, "a") == [("first", {"what": "fire"})]
    assert told(simulator, "e") == []
    detail = "no link led to the subscribers at b5 before the event ended"
    assert put_aside(simulator) == [("late", "cut-off", detail)]
    assert sum(books.left_out["cut-off"] for books in simulator.books.values()) == 1
    assert all(books.balanced for books in simulator.books.values())
    assert not {("b2", "b3"), ("b3", "b2")} & simulator.crossed.keys()


def test_where_nobody_else_subscribes_it_counts_as_late() -> None:
    records = [*CHAIN, topic(window_ms=10_000), subscription("e", broker="b5")]
    simulator = simulated(*forbidding(records))
    simulator.publish(0, "b2", message({"what": "fire"}))
    simulator.run()
    assert sum(books.total(Outcome.LATE) for books in simulator.books.values()) == 1
    assert all(books.balanced for books in simulator.books.values())


def test_a_topic_that_may_cross_again_in_time_is_told_to_all() -> None:
    records = [*CHAIN, topic(window_ms=60_000), subscription("a", broker="b1"), subscription("e", broker="b5")]
    simulator = simulated(*forbidding(records))
    simulator.keep_outputs = True
    simulator.publish(0, "b2", message({"what": "fire"}))
    simulator.publish(0, "b4", message({"where": "hall"}))
    simulator.run(until_ms=1000)
    assert told(simulator, "a") == [("first", {"what": "fire"})]
    assert told(simulator, "e") == [("first", {"where": "hall"})]
    simulator.adopt(plan(*records), at_ms=2000)
    simulator.run()
    for name in "ae":
        assert {f: v for _, news in told(simulator, name) for f, v in news.items()} == {"what": "fire", "where": "hall"}
        assert len(told(simulator, name)) == 2
    assert put_aside(simulator) == []


def test_a_topic_that_is_forbidden_while_an_event_is_open_keeps_what_comes_after() -> None:
    records = [*CHAIN, topic(window_ms=10_000), subscription("a", broker="b1"), subscription("e", broker="b5")]
    simulator = simulated(*records)
    simulator.keep_outputs = True
    simulator.publish(0, "b2", message({"what": "fire"}))
    simulator.run(until_ms=1000)
    simulator.adopt(plan(*forbidding(records)), at_ms=2000)
    simulator.publish(3000, "b1", message({"where": "hall"}))
    simulator.run()
    assert told(simulator, "a") == [("first", {"what": "fire"}), ("news", {"where": "hall"})]
    assert told(simulator, "e") == [("first", {"what": "fire"})]
    assert [(outcome, reason) for outcome, reason, _ in put_aside(simulator)] == [("late", "cut-off")]
    assert all(books.balanced for books in simulator.books.values())


def test_brokers_without_links_are_separate_on_purpose() -> None:
    simulator = simulated(broker("b1"), broker("b2"), topic(window_ms=5000), subscription("s", broker="b2"))
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.run()
    assert simulator.told == []
    assert sum(books.total(Outcome.LATE) for books in simulator.books.values()) == 0


def test_a_forbidden_topic_never_crosses_a_link() -> None:
    ring = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2", forbid=["incident"]), link("b2", "b3"), link("b1", "b3")]
    simulator = simulated(*ring, subscription("s", broker="b2"))
    simulator.publish(0, "b1", message({"what": "fire"}))
    simulator.run()
    assert told(simulator, "s") == [("first", {"what": "fire"})]
    assert not {("b1", "b2"), ("b2", "b1")} & simulator.crossed.keys()
