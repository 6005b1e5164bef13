"""Aggregates over windows while subscriptions come and go, of events, of what comes late; and what is said of what crossed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.model.items import Publication, Through
from streaming.model.links import PassedOn, WindowRecord
from streaming.model.outputs import PutAside
from streaming.windows.link import LinkWindows
from streaming.wire.message import MessageLimits, decode_message
from streaming.world.records import advertisement, link, subscription, topic
from streaming.world.window_reference import expected, late
from streaming.world.window_world import BROKERS, OVERLAYS, SERVED, WindowWorld
from tidings.topic import Deciding

SETTLES_S = 32
law = settings(max_examples=settings.default.max_examples // 3)
"""A whole overlay runs for each example: a third of what others are tried on has to do."""
DECIDERS = sorted(Deciding)
MIXED = [
    {"size_ms": 4000, "shift_ms": 2000, "grace_ms": 0, "empty": False, "of": {"n": "count()"}},
    {"size_ms": 5000, "shift_ms": 1500, "grace_ms": 700, "empty": True, "of": {"n": "count()", "mean": "avg(speed)"}},
    {"size_ms": 1000, "shift_ms": 4000, "grace_ms": 0, "empty": True, "of": {"total": "sum(speed)"}},
    {"size_ms": 3000, "shift_ms": 3000, "grace_ms": 300, "empty": False, "of": {"last": "last(road)"}},
    {"size_ms": 2000, "shift_ms": 700, "grace_ms": 0, "empty": False, "of": {"kinds": "distinct(road)", "often": "top(1, road)"}},
    {"size": 4, "shift": 3, "empty": False, "of": {"n": "count()", "first": "first(speed)"}},
    {"size": 2, "shift": 3, "empty": False, "of": {"smooth": "ema(speed, 0.25)"}},
]
DECOMPOSABLE = MIXED[:4]
seeds = st.integers(0, 10**6)
shapes = st.sampled_from(["chain", "star"])


def aggregate(name: str, at: str, window: Mapping[str, Any], where: str = "", **more: Any) -> dict[str, Any]:
    return subscription(name, topic="reading", broker=at, where=where, window=dict(window), **more)


def mixed(chance: Random, count: int = 4, spans: list[dict[str, Any]] = MIXED) -> list[dict[str, Any]]:
    """Windows of all sorts, so that several lie beyond one link."""
    wheres = ["", "", "road = 'E45'", "speed >= 5"]
    return [aggregate(f"w{n}", chance.choice(BROKERS), chance.choice(spans), chance.choice(wheres)) for n in range(count)]


def made(shape: str, chance: Random, records: list[dict[str, Any]], **declared: Any) -> WindowWorld:
    reading = topic("reading", **{"gather": False, "decider": chance.choice(DECIDERS), **declared})
    buckets, window_buckets = chance.randint(1, 3), chance.randint(1, 3)
    seed, services = chance.randrange(10**6), {"s": None} if shape == "one" else chance.choice(SERVED)
    made = [*OVERLAYS[shape], reading, *records]
    return WindowWorld(made, buckets, window_buckets, seed=seed, services=services, hands_on=chance.random() < 0.5)


def check(world: WindowWorld, entered: list[Publication] | None = None, extra_ms: int = 0) -> None:
    until_ms = world.now_ms - 12_000
    for record in world.aggregates:
        wanted = expected(
            record, world.entered() if entered is None else entered, world.since_ms[record["name"]], until_ms, extra_ms
        )
        results = world.results(record["name"])
        # One of the same name that was there before has told what it had.
        results = {
            start: told
            for start, told in results.items()
            if "size" in record["window"] or start >= world.since_ms[record["name"]]
        }
        told = {start: (n[-1].reports, dict(n[-1].news), dict(n[-1].window.left_out)) for start, n in results.items()}
        assert {start: told.get(start) for start in wanted} == wanted, record
        assert not {start for start in told.keys() - wanted.keys() if start < max(wanted, default=0)}
        assert all(len(set(map(repr, each))) == 1 for each in results.values()), "a window was told twice, and differently"
    for name in world.plan.overlay.brokers:
        books = world.books(name)
        assert {to: books.on_the_way(to) for to, _ in books.window_items if books.on_the_way(to)} == {}, name


def _at(aside: PutAside) -> tuple[str, int, int]:
    return aside.origin.kafka_topic, aside.origin.partition, aside.origin.offset


def _late_for(aside: PutAside) -> list[str]:
    return sorted(aside.detail.rpartition("too late for ")[2].split(", "))


# ---- subscriptions come and go ----------------------------------------------------------------------------------------


@law
@given(shapes, seeds, st.booleans())
def test_who_comes_in_mid_stream_is_told_whole_windows_and_who_goes_nothing_more(shape, seed, crashes):
    chance = Random(seed)
    world = made(shape, chance, [*mixed(chance), subscription("plain", topic="reading", broker="b3", where="road = 'E20'")])
    for number in range(3):
        world.play(BROKERS, chance, chance.randint(0, 12), crashes=crashes)
        gone = chance.choice([None, *world.aggregates])
        came = aggregate(f"c{number}", chance.choice(BROKERS), chance.choice(MIXED))
        world.control(came, delete=[] if gone is None else [f"subscription/{gone['name']}"])
    world.play(BROKERS, chance, 8, crashes=crashes)
    world.settle(SETTLES_S)
    check(world)
    # All publish where they are waited for: whatever is late was late when it entered.
    assert not [each.detail for each in world.put_aside if "too late for" not in each.detail]


@pytest.mark.parametrize("decider", DECIDERS)
def test_a_deleted_one_leaves_nothing_behind(decider):
    chance = Random(7)
    stays, goes = aggregate("stays", "b4", MIXED[0]), [aggregate(f"goes{n}", "b4", each) for n, each in enumerate(MIXED)]
    world = WindowWorld([*OVERLAYS["chain"], topic("reading", gather=False, decider=decider), stays, *goes], seed=1)
    world.play(BROKERS, chance, 30)
    world.tick(1)
    world.event_batch()
    world.window_batch()
    interests = {each.interest for each in world.plan.windows("b4", "reading")[""] if each.name != "stays"}
    assert interests & kept(world)
    world.control(delete=[f"subscription/{each['name']}" for each in goes])
    deleted_ms = world.now_ms
    world.play(BROKERS, chance, 30)
    world.settle(SETTLES_S)
    assert not interests & kept(world)
    check(world)
    for each in goes:
        told = world.results(each["name"]).values()
        assert all(n.window.counted or n.window.end + each["window"]["grace_ms"] <= deleted_ms for found in told for n in found)


def kept(world: WindowWorld) -> set[str]:
    """The interests that the pipeline of windows remembers anything of."""
    found: set[str] = set()
    for links in (links for state in world.window_states for links in state.links.values()):
        windows = links.windows
        found |= {*links.since, *links.said, *(interest for up in links.upstream.values() for interest in up.since)}
        if isinstance(windows, LinkWindows):
            found |= {range_.subscription for range_ in (*windows.tallies, *windows.graph.ranges)}
            found |= {range_.subscription for ranges in windows.graph.items.values() for range_ in ranges}
        else:
            found |= {*(range_.subscription for range_ in windows.open), *windows.counting, *windows.next_empty}
    return found


def test_one_batch_may_have_a_change_and_all_that_follows_from_it():
    world = WindowWorld([topic("reading", gather=False), aggregate("w0", "b1", MIXED[0])])
    for number in range(40):
        world.publish("b1", {"speed": number, "road": "E45"}, after_ms=300, id=f"m{number}", published_ms=world.now_ms + 300)
        world.tick(1)
        world.event_batch()
        if number == 10:
            world.control(*(aggregate(f"c{n}", "b1", each) for n, each in enumerate(MIXED)), delete=["subscription/w0"])
    for _ in range(SETTLES_S):
        world.tick()
        world.event_batch()
    world.window_batch()
    check(world)
    assert all(world.results(f"c{n}") for n in range(len(MIXED)))


@law
@given(shapes, seeds)
def test_the_same_interest_twice_at_one_broker_and_at_several(shape, seed):
    chance = Random(seed)
    window = chance.choice(MIXED)
    places = ["b4", "b4", chance.choice(BROKERS), chance.choice(BROKERS)]
    world = made(shape, chance, [aggregate(f"w{n}", at, window, "road = 'E45'") for n, at in enumerate(places)])
    world.play(BROKERS, chance, 30)
    world.settle(SETTLES_S)
    check(world)
    news = [[(start, dict(n[0].news)) for start, n in sorted(world.results(f"w{n}").items())] for n in range(4)]
    least = min(map(len, news))
    assert all(each[:least] == news[0][:least] for each in news)


@law
@given(shapes, seeds, st.booleans())
def test_a_replay_of_the_log_tells_the_same(shape, seed, crashes):
    chance = Random(seed)
    world = made(shape, chance, [*mixed(chance), subscription("plain", topic="reading", broker="b3", where="road = 'E20'")])
    for number in range(2):
        world.play(BROKERS, chance, chance.randint(0, 12), crashes=crashes)
        world.event_batch()  # what is read after the change from a partition that lags is held to it, and told or not
        world.control(aggregate(f"c{number}", chance.choice(BROKERS), chance.choice(MIXED)), delete=[f"subscription/w{number}"])
    world.play(BROKERS, chance, 8, crashes=crashes)
    check_replay(world)


@law
@given(shapes, seeds, st.booleans())
def test_it_does_when_the_ways_changed_while_windows_were_open(shape, seed, crashes):
    """Which of them were over by then, and told, and which are given up, follows from the log alone, too."""
    chance = Random(seed)
    world = made(shape, chance, [*mixed(chance), subscription("plain", topic="reading", broker="b3", where="road = 'E20'")])
    for _ in range(3):
        world.play(BROKERS, chance, chance.randint(4, 15), crashes=crashes)
        world.event_batch()  # as above
        world.wait(1)  # of what has the same time, the tick stands first in the log, though it was read last
        a, b = chance.sample(BROKERS, 2)
        gone = chance.choice([name for name in world.records_now if name.startswith("link/")])
        world.control(link(a, b), delete=[gone])
    world.play(BROKERS, chance, 8, crashes=crashes)
    check_replay(world)


def check_replay(world: WindowWorld) -> None:
    world.settle(SETTLES_S)
    again = {each.id: each for each in world.replayed()}
    told = {each.id: each for each in world.told}
    assert {name: again.get(name) for name in told} == told
    assert all(not each.window or each.window.end > world.now_ms - 12_000 for name, each in again.items() if name not in told)


# ---- events -----------------------------------------------------------------------------------------------------------


@law
@given(st.sampled_from(sorted(OVERLAYS)), seeds, st.booleans())
def test_events_count_once_as_they_were_in_the_end(shape, seed, crashes):
    chance = Random(seed)
    names = ["b1"] if shape == "one" else BROKERS
    of = {"n": "count()", "total": "sum(speed)", "roads": "distinct(road)"}
    spans = [{**each, "of": of} for each in MIXED]
    records = [aggregate(f"w{n}", chance.choice(names), chance.choice(spans)) for n in range(3)]
    timing = {"window_ms": 3000, "hold_ms": chance.choice([0, 500]), "remember_ms": chance.choice([1000, 3000])}
    world = made(shape, chance, records, gather=True, **timing)
    for number in range(25):
        at, reports = chance.choice(names), chance.randint(1, 3)
        facts = [{"road": chance.choice("ab")}, {"speed": number}, {"what": "jam"}]
        for report in range(reports):
            after_ms = chance.randint(0, 300)
            published_ms = world.now_ms + after_ms - chance.choice([0, 200])
            if timing["remember_ms"] == timing["window_ms"]:
                # When an event is forgotten before its window ends depends on the order in which reports come.
                at = chance.choice(names)
            world.publish(
                at, facts[report], after_ms=after_ms, key=f"e{number}", id=f"m{number}-{report}", published_ms=published_ms
            )
        if chance.random() < 0.5:
            world.tick(chance.randint(1, 1000))
        world.run(crashes=crashes)
    world.settle(SETTLES_S)
    gatherer = world.plan.route("reading").part_of["b1"].gatherer
    events = world.ended("reading", gatherer)
    if timing["remember_ms"] == timing["window_ms"]:
        assert len(events) == 25, "what is one event at one broker is one event here"
    check(world, events, extra_ms=3000)
    # What misses a window stands in `late`, once, with all it said.
    wanted = {each.entered_at: (missed, each.fields) for each in events if (missed := late(world.aggregates, each))}
    assert {_at(o): (_late_for(o), decode_message(o.entry.value, MessageLimits()).fields) for o in world.put_aside} == wanted
    if not crashes:
        assert len(world.put_aside) == len(wanted)


# ---- late -------------------------------------------------------------------------------------------------------------


@law
@given(st.sampled_from(sorted(OVERLAYS)), seeds, st.booleans())
def test_what_misses_a_window_is_put_aside_and_nothing_else(shape, seed, crashes):
    chance = Random(seed)
    names = ["b1"] if shape == "one" else BROKERS
    records = [{**each, "broker": chance.choice(names)} for each in mixed(chance)]
    plain = subscription("plain", topic="reading", broker=chance.choice(names), where="road = 'E20'")
    world = made(shape, chance, [*records, plain])
    world.play(names, chance, 30, crashes=crashes)
    world.settle(SETTLES_S)
    wanted = {each.entered_at: missed for each in world.entered() if (missed := late(records, each))}
    aside = {_at(o): o for o in world.put_aside}
    assert {at: _late_for(o) for at, o in aside.items()} == wanted
    assert {(o.outcome, o.reason) for o in world.put_aside} <= {("late", "window-closed")}
    if not crashes:
        assert len(world.put_aside) == len(aside)
        books = [world.books(name) for name in names]
        assert sum(each.left_out["window"] + each.outcomes["late", "window-closed"] for each in books) == len(aside)


@pytest.mark.parametrize("gather", [False, True])
def test_late_is_mentioned_also_where_each_broker_gathers_for_its_own(gather):
    """A topic that nobody gathers for all counts every publication in windows."""
    records = [aggregate("w", "b4", MIXED[0]), subscription("plain", topic="reading", broker="b1")]
    world = WindowWorld([*OVERLAYS["chain"], topic("reading", gather=gather, gatherer="none"), *records])
    world.play(BROKERS, Random(5), 40)
    world.settle(SETTLES_S)
    wanted = sorted(each.entered_at for each in world.entered() if late(records[:1], each))
    assert sorted((o.origin.kafka_topic, o.origin.partition, o.origin.offset) for o in world.put_aside) == wanted != []
    check(world)


# ---- what is said of what crossed -------------------------------------------------------------------------------------


@law
@given(shapes, seeds)
def test_what_crossed_for_windows_is_what_the_decisions_say(shape, seed):
    chance = Random(seed)
    plain = [subscription(f"p{n}", topic="reading", broker=chance.choice(BROKERS), where="road = 'E20'") for n in range(2)]
    world = made(shape, chance, [*mixed(chance, 5, MIXED[:5]), *plain])
    world.play(BROKERS, chance, 40)
    world.settle(SETTLES_S)
    said: Counter[tuple[str, str]] = Counter()
    for each in world.decided:
        said[each.sender, each.to] += each.sent
        assert 0 <= each.sent <= each.items
        assert each.sent <= each.would["forward"] + each.items
    crossed: Counter[tuple[str, str]] = Counter()
    once: Counter[tuple[str, str, str]] = Counter()
    for send in world.crossed:
        record = send.record
        if isinstance(record, PassedOn):
            once[send.sender, send.to, record.message.message_id] += 1
        elif isinstance(record, WindowRecord) and not isinstance(record.item, Through):
            crossed[send.sender, send.to] += 1
            if isinstance(record.item, Publication):
                once[send.sender, send.to, record.item.id] += 1
    assert crossed == +said
    assert set(once.values()) <= {1}, "something crossed a link twice"
    for name in BROKERS:
        for (to, what), count in world.books(name).windows.items():
            assert what != "sent" or count == said[name, to]
    check(world)


@pytest.mark.parametrize("decider", DECIDERS)
def test_what_crosses_for_somebody_else_costs_windows_nothing(decider):
    records = [aggregate("w", "b4", MIXED[0]), subscription("plain", topic="reading", broker="b4")]
    world = WindowWorld([*OVERLAYS["chain"], topic("reading", gather=False, decider=decider), *records])
    world.play(["b1"], Random(3), 30)
    world.settle(SETTLES_S)
    assert world.decided
    assert {each.sent for each in world.decided} == {0}
    assert {count for each in world.decided for count in each.would.values()} == {0}
    assert not [s for s in world.crossed if isinstance(s.record, WindowRecord) and not isinstance(s.record.item, Through)]
    check(world)


def test_empty_windows_are_told_to_those_who_ask():
    asks, other = {**MIXED[0], "empty": True}, {**MIXED[0], "empty": False}
    records = [aggregate("asks", "b4", asks), aggregate("other", "b4", other)]
    world = WindowWorld([*OVERLAYS["chain"], topic("reading", gather=False), *records])
    world.settle(20)
    world.play(BROKERS, Random(1), 20)
    world.settle(SETTLES_S)
    check(world)
    told = {name: [n[0].reports for _, n in sorted(world.results(name).items())] for name in ("asks", "other")}
    assert told["other"] == [count for count in told["asks"] if count]
    starts = sorted(world.results("asks"))
    assert starts == list(range(starts[0], starts[-1] + 1, 2000))


def test_a_long_silence_in_short_windows_is_told_once(monkeypatch):
    monkeypatch.setattr("streaming.windows.local.MOST_EMPTY", 500)
    window = {"size_ms": 1, "shift_ms": 1, "grace_ms": 0, "empty": True, "of": {"n": "count()"}}
    world = WindowWorld([topic("reading", gather=False), aggregate("w", "b1", window)])
    world.tick(1)
    world.event_batch()
    world.publish("b1", {"speed": 1}, after_ms=1999, published_ms=world.now_ms + 1999)
    world.settle(12)
    results = world.results("w")
    assert all(len(each) == 1 for each in results.values())
    assert [start for start, each in results.items() if each[0].reports] == [world.published[0][0]]
    assert sorted(results) == list(range(min(results), max(results) + 1))
    assert len(results) > 4000


def test_one_that_publishes_where_nobody_was_said_to_counts_while_its_windows_are_open():
    records = [aggregate("w", "b4", MIXED[0]), advertisement("sensors", "b2", "reading")]
    world = WindowWorld([*OVERLAYS["chain"], topic("reading", gather=False), *records])
    world.play(["b2"], Random(1), 20)
    world.settle(SETTLES_S)
    check(world)
