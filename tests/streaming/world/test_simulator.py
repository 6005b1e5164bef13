"""The simulator: links keep their order, silence passes, brokers take up a change when they hear of it, sizes are real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from streaming.model.items import Publication
from streaming.model.outputs import Decided, Send
from streaming.wire.link import encode_link
from streaming.world.records import broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from streaming.world.window_reference import expected
from tidings import names
from tidings.message import Message

PAIR = [broker("b1"), broker("b2"), link("b1", "b2")]


def message(**fields: object) -> Message:
    return Message("incident", "k", fields)  # type: ignore[arg-type]


def told(simulator: Simulator) -> list[tuple[int, str, dict[str, object]]]:
    """When, whom, what."""
    return [(tell.at_ms, tell.notification.subscription, dict(tell.notification.news)) for _, tell in simulator.told]


def gathering_at_b1(*more: dict[str, object], delay: Callable[[str, str], int] = lambda *_: 10, **options: bool) -> Simulator:
    """Two brokers; b1 gathers, as of two centres the smaller name counts. Somebody at b2 wants to know."""
    return Simulator(plan(*PAIR, *more, subscription("far", broker="b2")), delay, **options)


def test_a_link_takes_as_long_as_its_delay_says_in_either_direction() -> None:
    delays = {("b1", "b2"): 30, ("b2", "b1"): 7}
    simulator = gathering_at_b1(delay=lambda *ends: delays[ends])
    simulator.publish(100, "b2", message(what="fire"))
    simulator.run()
    assert told(simulator) == [(100 + 7 + 30, "far", {"what": "fire"})]
    assert {ends: crossed.kinds for ends, crossed in simulator.crossed.items()} == {
        ("b2", "b1"): {"PassedOn": 1},
        ("b1", "b2"): {"EventNews": 1},
    }


def test_what_is_sent_later_does_not_arrive_earlier_even_if_the_link_got_faster() -> None:
    delays = iter([500, 20, 20])
    simulator = gathering_at_b1(delay=lambda *_: next(delays))
    for at_ms, name in ((0, "a"), (100, "b"), (600, "c")):
        simulator.publish(at_ms, "b1", message(**{name: 1}))
    simulator.run()
    assert told(simulator) == [(500, "far", {"a": 1}), (500, "far", {"b": 1}), (620, "far", {"c": 1})]


def test_what_happens_at_the_same_time_happens_in_the_order_it_was_caused() -> None:
    simulator = gathering_at_b1()
    for name in "cab":
        simulator.publish(50, "b1", message(**{name: 1}))
    simulator.run()
    assert [list(news) for _, _, news in told(simulator)] == [["c"], ["a"], ["b"]]


def test_timers_fire_in_silence_at_their_own_time_and_silence_costs_nothing() -> None:
    simulator = gathering_at_b1(topic(hold_ms=4000, remember_ms=10_000, window_ms=60_000))
    simulator.publish(1000, "b1", message(what="fire"))
    simulator.run()
    assert told(simulator) == [(5010, "far", {"what": "fire"})]
    assert list(simulator.held()) == [], "after T_r it is forgotten, with nobody saying anything"
    assert simulator.now_ms == 5010 + 10_000, "the far end forgets last"
    assert simulator.steps < 10, "fifteen seconds, and a handful of steps"


def test_a_timer_that_moves_fires_once_at_its_new_time() -> None:
    simulator = gathering_at_b1(topic(remember_ms=1000, window_ms=60_000))
    for at_ms, name in ((0, "a"), (900, "b")):
        simulator.publish(at_ms, "b1", message(**{name: 1}))
    simulator.run(until_ms=1899)
    assert "b1" in simulator.held()
    simulator.run(until_ms=1900)
    assert list(simulator.held()) == ["b2"]


def test_time_stops_where_it_is_told_to_and_goes_on_from_there() -> None:
    simulator = gathering_at_b1(topic(hold_ms=4000, remember_ms=10_000))
    simulator.publish(0, "b1", message(what="fire"))
    simulator.run(until_ms=4009)
    assert (told(simulator), simulator.now_ms, simulator.link_messages) == ([], 4009, 1)
    simulator.run(until_ms=4010)
    assert told(simulator) == [(4010, "far", {"what": "fire"})]
    simulator.publish(4500, "b1", message(where="hall"))
    simulator.run(until_ms=9_000)
    assert simulator.now_ms == 9_000, "also when nothing happens until then"
    assert told(simulator)[1:] == [(8510, "far", {"where": "hall"})]


def test_brokers_take_up_a_change_when_they_hear_of_it() -> None:
    apart = [broker("b1"), broker("b2")]
    simulator = Simulator(plan(*apart), lambda *_: 10)
    wants = [subscription("one", broker="b1"), subscription("two", broker="b2")]
    simulator.adopt(plan(*apart, *wants), 1000, lag={"b1": 0, "b2": 500}.__getitem__)
    for name in ("b1", "b2"):
        simulator.publish(1200, name, message(what="fire"))
    simulator.run()
    # At b2 the event was there before its subscription was: it is told when that comes.
    assert told(simulator) == [(1200, "one", {"what": "fire"}), (1500, "two", {"what": "fire"})]


def test_a_broker_that_is_new_takes_part_and_one_that_is_gone_hears_of_it() -> None:
    simulator = Simulator(plan(broker("b1"), subscription("s", broker="b1")), lambda *_: 10)
    simulator.publish(0, "b1", message(what="fire"))
    simulator.run(until_ms=500)
    simulator.adopt(plan(broker("b2"), subscription("s", broker="b2")), 1000)
    simulator.publish(2000, "b2", message(what="flood"))
    simulator.run()
    assert told(simulator) == [(0, "s", {"what": "fire"}), (2000, "s", {"what": "flood"})]
    assert set(simulator.books) == {"b1", "b2"}
    assert all(books.balanced for books in simulator.books.values())


def test_sizes_are_those_of_the_records_as_they_are_encoded() -> None:
    simulator = gathering_at_b1(sizes=True)
    simulator.keep_outputs = True
    simulator.publish(0, "b2", message(what="fire"))
    simulator.publish(50, "b2", message(what="fire", where="a hall with a long name"))
    simulator.run()
    sent = [output for _, output in simulator.outputs if isinstance(output, Send)]
    assert [(send.sender, send.to) for send in sent] == [("b2", "b1"), ("b1", "b2")] * 2
    for ends, crossed in simulator.crossed.items():
        there = [send for send in sent if (send.sender, send.to) == ends]
        assert crossed.records == len(there) == 2
        assert crossed.bytes == sum(len(encode_link(send.record, send.stamp)) for send in there) > 0
        assert crossed.bytes == simulator.books[ends[1]].heard_bytes[ends[0]], "the far end counts the same"


def test_without_sizes_nothing_is_encoded() -> None:
    simulator = gathering_at_b1()
    simulator.publish(0, "b2", message(what="fire"))
    simulator.run()
    assert simulator.link_messages == 2
    assert {crossed.bytes for crossed in simulator.crossed.values()} == {0}
    assert simulator.outputs == []


@pytest.mark.parametrize("kept", [True, False])
def test_outputs_are_kept_if_somebody_wants_them(kept: bool) -> None:
    simulator = gathering_at_b1()
    simulator.keep_outputs = kept
    simulator.publish(0, "b1", message(what="fire"))
    simulator.run()
    decided = [where for where, output in simulator.outputs if isinstance(output, Decided)]
    assert decided == (["b1", "b2"] if kept else [])


# ---- windows ----------------------------------------------------------------------------------------------------------

CHAIN = [*map(broker, ("b1", "b2", "b3")), link("b1", "b2"), link("b2", "b3")]
TIMED = {"size_ms": 4000, "shift_ms": 1000, "grace_ms": 500, "empty": False, "of": {"n": "count()", "sum": "sum(speed)"}}
COUNTED = {"size": 3, "shift": 2, "empty": False, "of": {"n": "count()", "sum": "sum(speed)"}}


def readings(simulator: Simulator, seed: int) -> list[Publication]:
    """Some readings at all brokers, with what each is to windows."""
    chance, now_ms, found = Random(seed), 0, []
    for number in range(40):
        now_ms += chance.choice([1, 40, 300, 2500])
        at, late_ms = chance.choice(["b1", "b2", "b3"]), chance.choice([0, 0, 200, 900])
        reading = Message("reading", f"k{number}", {"speed": number}, id=f"m{number:02d}", published_ms=max(0, now_ms - late_ms))
        simulator.publish(now_ms, at, reading)
        entered_at = (names.publish_topic(at), 0, number)
        found.append(Publication(reading.key, f"m{number:02d}", max(0, now_ms - late_ms), now_ms, entered_at, {"speed": number}))
    return found


def windows_told(simulator: Simulator, name: str) -> dict[int, tuple[int, dict[str, object], dict[str, int]]]:
    found = [tell.notification for _, tell in simulator.told if tell.notification.subscription == name]
    return {each.window.start: (each.reports, dict(each.news), {}) for each in found if each.window is not None}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("decider", ["adock", "always-forward", "always-aggregate"])
@pytest.mark.parametrize("gather", [False, True])
def test_windows_over_two_links_hold_what_the_reference_finds(seed: int, decider: str, gather: bool) -> None:
    declared = topic("reading", gather=gather, hold_ms=0, remember_ms=2000, window_ms=2000, decider=decider)
    asked = [
        subscription("far", "reading", broker="b3", window=TIMED),
        subscription("near", "reading", broker="b1", where="speed > 9", window=TIMED),
        subscription("counts", "reading", broker="b2", window=COUNTED),
    ]
    plain = subscription("plain", "reading", broker="b2", where="speed < 20")
    delays = {("b1", "b2"): 30, ("b2", "b1"): 7, ("b2", "b3"): 400, ("b3", "b2"): 0}
    simulator = Simulator(plan(*CHAIN, declared, *asked, plain), lambda *ends: delays[ends])
    entered = readings(simulator, seed)
    simulator.run()
    for each in asked:
        # An event counts when it has ended.
        wanted = expected(each, entered, 0, simulator.now_ms + 60_000, declared["window_ms"] if gather else 0)
        assert windows_told(simulator, each["name"]) == wanted != {}
    assert all(books.balanced for books in simulator.books.values())


def test_aggregates_cross_links_where_that_is_fewer() -> None:
    def crossed(decider: str) -> Counter[str]:
        declared = topic("reading", gather=False, decider=decider)
        simulator = Simulator(plan(*CHAIN, declared, subscription("far", "reading", broker="b3", window=TIMED)), lambda *_: 5)
        readings(simulator, 1)
        simulator.run()
        return sum((each.kinds for each in simulator.crossed.values()), Counter())

    assert crossed("always-forward")["Aggregated"] == 0
    assert crossed("always-aggregate")["Publication"] == 0
    assert crossed("always-aggregate")["Aggregated"] > 0


def test_where_nobody_asks_for_windows_there_are_none() -> None:
    simulator = gathering_at_b1()
    simulator.publish(0, "b2", message(what="fire"))
    simulator.run()
    assert {process.windows.buckets for process in simulator.processes.values()} == {0}


def test_a_window_that_nobody_lets_close_does_not_hold_up_the_end() -> None:
    """b3 hears of a change much later than the others: its neighbour waits for it, but not for ever."""
    records = [*CHAIN, topic("reading", gather=False)]
    simulator = Simulator(plan(*records), lambda *_: 5)
    later = plan(*records, subscription("near", "reading", broker="b1", window=TIMED))
    simulator.adopt(later, 100, lag={"b1": 0, "b2": 0, "b3": 10**9}.__getitem__)
    for number in range(10):
        simulator.publish(1000 + 500 * number, "b1", Message("reading", "k", {"speed": number}, id=f"m{number}"))
    simulator.run(until_ms=10**8)
    assert windows_told(simulator, "near") == {}
    assert simulator.steps < 2000


def test_the_same_happens_again() -> None:
    def run() -> Simulator:
        simulator = gathering_at_b1(topic(hold_ms=30, remember_ms=200), delay=lambda a, _: 10 if a == "b1" else 25)
        for number in range(40):
            simulator.publish(7 * number, f"b{1 + number % 2}", message(**{f"f{number % 9}": number % 4}))
        simulator.run()
        return simulator

    one, other = run(), run()
    assert one.told == other.told
    assert one.told
    assert (one.steps, one.link_messages, one.books) == (other.steps, other.link_messages, other.books)
