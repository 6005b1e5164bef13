"""Short windows and slow links: an overlay still makes the events that one broker would make, and puts nothing aside.

It does so whenever no message is on its way for as long as its topic's window.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from streaming.broker.state import Rules
from streaming.model.outputs import PutAside
from streaming.world.one_broker import Script
from streaming.world.records import advertisement, broker, link, plan, subscription, topic
from streaming.world.simulator import Simulator
from tidings.message import Message
from tidings.notification import Notification
from tidings.topic import Filtering
from topology.islands import PLACED

NAMES = [f"b{n}" for n in range(1, 7)]
KEYS = ["k1", "k2"]
FIELDS = {"a": "first", "b": "last", "c": "min", "d": "union"}

stated = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(0, 2),
        "b": st.integers(0, 2),
        "c": st.integers(0, 2),
        "d": st.sampled_from([("x",), ("y",), ("x", "z")]),
    },
)
publishes = st.tuples(st.integers(0, 40_000), st.sampled_from(NAMES), st.sampled_from(KEYS), stated)
streams = st.lists(publishes, min_size=1, max_size=30)
manners = st.fixed_dictionaries(
    {
        "hold_ms": st.sampled_from([0, 1_000]),
        "filter": st.sampled_from([str(filtering) for filtering in Filtering]),
        "gatherer": st.sampled_from([str(placement) for placement in PLACED]),
        "early": st.booleans(),
        "window_ms": st.sampled_from([8_000, 12_000, 20_000]),
    }
)
delays = st.lists(st.integers(300, 900), min_size=len(NAMES), max_size=len(NAMES))
parents = st.tuples(*(st.integers(0, n - 1) for n in range(1, len(NAMES))))
asked = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)


def events_of(told: Iterable[Notification]) -> dict[str, Counter[tuple]]:
    """For each subscription, its events: the key, and all that was told of it."""
    known: dict[tuple[str, str, str], dict] = defaultdict(dict)
    for each in told:
        known[each.subscription, each.key, each.event].update(each.news)
    found: dict[str, Counter[tuple]] = defaultdict(Counter)
    for (name, key, _), facts in known.items():
        found[name][key, tuple(sorted(facts.items()))] += 1
    return found


def by_one_broker(records: list[dict], published: list[tuple]) -> Script:
    script = Script(now_ms=0)
    script.control(*records)
    for number, (at_ms, _, key, said) in enumerate(published):
        script.wait(at_ms - script.now_ms)
        script.publish(said, key, id=f"m{number:02}", published_ms=at_ms)
    script.tick(200_000)
    return script


@given(parents, delays, asked, manners, streams)
def test_an_overlay_makes_the_events_that_one_broker_makes(parents, delays, asked, manner, published):
    # At the same time it is chance which comes first.
    published = sorted({each[0]: each for each in published}.values(), key=lambda each: each[0])
    links = [link(NAMES[parent], child) for parent, child in zip(parents, NAMES[1:], strict=True)]
    incident = topic(fields=FIELDS, **manner)
    wants = [subscription(f"s{n}", broker=at) for n, at in enumerate(asked)]
    takes = {frozenset((r["a"], r["b"])): ms for r, ms in zip(links, delays, strict=False)}
    simulator = Simulator(plan(*map(broker, NAMES), *links, incident, *wants), lambda a, b: takes[frozenset((a, b))])
    simulator.keep_outputs = True
    for number, (at_ms, at, key, said) in enumerate(published):
        simulator.publish(at_ms, at, Message("incident", key, said, id=f"m{number:02}", published_ms=at_ms))
    simulator.run()
    alone = by_one_broker([incident, *({**each, "broker": "b1"} for each in wants)], published)
    assert not [output for _, output in simulator.outputs if isinstance(output, PutAside)]
    assert events_of(tell.notification for _, tell in simulator.told) == events_of(alone.told())
    assert all(books.balanced for books in simulator.books.values())
    assert not any(books.left_out["patience_ms"] for books in simulator.books.values())
    assert not list(simulator.held())


CHAIN = [broker("b1"), broker("b2"), broker("b3"), link("b1", "b2"), link("b2", "b3")]


def straggling(way_ms: int, patience_ms: int, *more: dict) -> Simulator:
    """What entered in time at b1 comes to b2, which gathers, when its event has ended there."""
    takes = {("b1", "b2"): way_ms}
    records = [*CHAIN, topic(window_ms=8_000), subscription("s", broker="b3"), *more]
    simulator = Simulator(plan(*records), lambda *way: takes.get(way, 100), rules=Rules(patience_ms=patience_ms))
    simulator.keep_outputs = True
    simulator.publish(0, "b2", Message("incident", "k", {"what": "fire"}, published_ms=0))
    simulator.publish(7_900, "b1", Message("incident", "k", {"who": "ann"}, published_ms=7_900))
    simulator.run()
    return simulator


def told(simulator: Simulator) -> list[tuple[str, dict]]:
    return [(str(tell.notification.reason), dict(tell.notification.news)) for _, tell in simulator.told]


def aside(simulator: Simulator) -> list[PutAside]:
    return [output for _, output in simulator.outputs if isinstance(output, PutAside)]


def test_what_entered_in_time_is_told_though_the_window_is_over_where_it_comes_to() -> None:
    simulator = straggling(2_000, 30_000)
    assert told(simulator) == [("first", {"what": "fire"}), ("final", {"who": "ann"})]
    assert not aside(simulator)


def test_nobody_waits_for_longer_than_patience_and_what_comes_then_is_late() -> None:
    simulator = straggling(5_000, 1_000)
    assert told(simulator) == [("first", {"what": "fire"})]
    assert [(a.outcome, a.reason) for a in aside(simulator)] == [("late", "window-closed")]
    assert "on its way for 5000 ms, and 1000 are waited for" in aside(simulator)[0].detail
    assert simulator.books["b2"].left_out["patience_ms"] == 1
    assert simulator.books["b2"].waited == {"b1": 1, "b3": 1}


def test_where_nobody_was_said_to_publish_nobody_is_waited_for() -> None:
    simulator = straggling(2_000, 30_000, advertisement("cam", broker="b2"))
    assert told(simulator) == [("first", {"what": "fire"})]
    assert [(a.outcome, a.reason) for a in aside(simulator)] == [("late", "window-closed")]
