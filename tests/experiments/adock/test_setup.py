"""The experiments on ADOCK: the set-up, and that what crosses the links is what it should be, whoever decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from experiments.adock import data as adock_data
from experiments.adock import links as adock_links
from experiments.adock import setup as adock
from experiments.adock import static as adock_static
from experiments.adock.setup import WINDOW_MS, AdockSetup, AdockSubscription, AdockWorld
from experiments.adock.sweep import AGGREGATE, ALL, FORWARD
from streaming.windows.deciders import Choice, ChoiceReason, Decision
from streaming.windows.graph import Graph, Range
from streaming.windows.static import minimum_cover

SMALL = AdockSetup(seed=3, data=adock_data.STOCK, rate=9, subscriptions=60, ratio=2.0, seconds=40)
MANY_SOURCES = AdockSetup(seed=3, data=adock_data.TRAFFIC, rate=20, subscriptions=60, ratio=2.0, seconds=30)
"""What a subscription asks for is published at several brokers."""
INTERWOVEN = AdockSetup(3, adock_data.STOCK, rate=30, subscriptions=45, ratio=2.0, seconds=25, crosswise=True, plain=False)
"""Any two ranges may have publications in common."""
DECIDERS = [name for name in ALL if name != adock_static.STATIC]

SETUPS = st.builds(
    AdockSetup,
    seed=st.integers(0, 3),
    data=st.just(adock_data.STOCK),
    rate=st.sampled_from([2.0, 8.0, 20.0]),
    subscriptions=st.sampled_from([9, 45]),
    ratio=st.sampled_from([1.0, 1.5, 2.0, 6.0]),
    seconds=st.integers(12, 25),
    crosswise=st.booleans(),
    scattered=st.booleans(),
    plain=st.booleans(),
    windows=st.sampled_from([(), ((10_000, 5_000), (7_000, 3_000), (2_000, 6_000), (15_000, 4_000))]),
) | st.just(MANY_SOURCES)


@pytest.fixture(autouse=True)
def made_up_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on every machine, whatever data there is; and no time is measured where nobody looks at it."""
    monkeypatch.setenv(adock_data.FOLDER, str(Path(__file__).parent))
    monkeypatch.setattr(adock_links, "matching_seconds", lambda *_: 0.001)


def laws(examples: int) -> settings:
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


# ---- the overlay ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_overlay_is_the_papers(seed: int) -> None:
    over = adock.overlay(seed)
    graph = nx.Graph([(link.begin, link.end) for link in over.links])
    assert nx.is_tree(graph)
    assert sorted(dict(graph.degree()).values()) == [1] * 12 + [4, 4, 5, 5]
    assert list(nx.shortest_path(graph, 0, 3)) == [0, 1, 2, 3]
    publishing, subscribing = set(over.publishing), set(over.subscribing)
    assert [len(publishing - subscribing), len(subscribing - publishing), len(publishing & subscribing)] == [3, 3, 6]
    assert publishing | subscribing == {broker for broker in graph if graph.degree(broker) == 1}


def test_what_crosses_a_link_is_in_time_for_the_next() -> None:
    over = adock.overlay(1)
    for link in over.links:
        before = [other.height for other in over.links if other.end == link.begin and other.begin != link.end]
        assert link.height == 1 + max(before, default=-1)


def test_ways_are_the_shortest() -> None:
    over = adock.overlay(1)
    graph = nx.Graph([(link.begin, link.end) for link in over.links])
    for begin, ends in nx.all_pairs_shortest_path(graph):
        for end, path in ends.items():
            assert [(link.begin, link.end) for link in over.way(begin, end)] == list(pairwise(path))


# ---- subscriptions ----------------------------------------------------------------------------------------------------


def test_a_third_are_aggregate_ones_and_every_broker_has_as_many() -> None:
    world = adock.world(AdockSetup(1, adock_data.STOCK, 1, 90, seconds=10))
    assert Counter(each.aggregate for each in world.subscriptions) == {True: 30, False: 60}
    for aggregate, most in ((True, 4), (False, 7)):
        at = Counter(each.broker for each in world.subscriptions if each.aggregate == aggregate)
        assert set(at) == set(world.overlay.subscribing)
        assert max(at.values()) == most


def test_all_are_aggregate_ones_where_none_are_plain() -> None:
    world = adock.world(AdockSetup(1, adock_data.STOCK, 1, 90, seconds=10, plain=False))
    assert all(each.aggregate for each in world.subscriptions)
    assert world.at_once == 0


@given(
    size=st.just(WINDOW_MS) | st.integers(100, 30_000),
    shift=st.integers(500, WINDOW_MS),
    issued=st.integers(0, WINDOW_MS),
    now=st.integers(0, 60_000),
)
@example(size=2_000, shift=6_000, issued=1_000, now=3_000)
@example(size=2_000, shift=6_000, issued=1_000, now=2_999)
def test_the_open_ranges_are_those_that_hold_now(size: int, shift: int, issued: int, now: int) -> None:
    subscription = AdockSubscription("s", 4, (), True, issued % shift, shift, size)

    def open_at(time: int) -> set[int]:
        starts = range(issued % shift - 200 * shift, time + 1, shift)
        return {start for start in starts if start <= time < start + size}

    ranges = subscription.open_ranges(now)
    assert {each.start for each in ranges} == open_at(now)
    assert all(each.end == each.start + size for each in ranges)
    until = subscription.changes_ms(now)
    assert open_at(until - 1) == open_at(now)
    assert until > now
    assert open_at(now) != open_at(until)


@pytest.mark.parametrize("plain", [True, False])
def test_mixed_windows_are_dealt_to_aggregate_subscriptions_in_turn(plain: bool) -> None:
    windows = ((10_000, 10_000), (7_000, 3_000), (2_000, 6_000))
    world = adock.world(AdockSetup(1, adock_data.STOCK, 1, 45, seconds=10, plain=plain, windows=windows))
    dealt = [(each.size_ms, each.shift_ms) for each in world.subscriptions if each.aggregate]
    assert dealt == [windows[number % 3] for number in range(15 if plain else 45)]
    assert all(0 <= each.issued_ms < each.shift_ms for each in world.subscriptions)
    alike = adock.world(AdockSetup(1, adock_data.STOCK, 1, 45, seconds=10, plain=plain))
    assert {(each.size_ms, each.shift_ms) for each in alike.subscriptions} == {(WINDOW_MS, WINDOW_MS)}
    assert world.routing is alike.routing


# ---- publications -----------------------------------------------------------------------------------------------------


def test_the_same_seed_is_the_same_world_and_another_is_not() -> None:
    one, again, other = (adock.world(AdockSetup(seed, adock_data.STOCK, 9, 9, seconds=20)) for seed in (1, 1, 2))
    assert one.times_ms.tolist() == again.times_ms.tolist() != other.times_ms.tolist()
    assert len(one.times_ms) == 180
    assert 0 <= one.times_ms[0] <= one.times_ms[-1] < 20_000


def source(world: AdockWorld, row: int) -> int:
    """The broker that a row is published at, where it is not scattered."""
    publishing = world.overlay.publishing
    return publishing[world.data.publisher[row] % len(publishing)]


def steiner(world: AdockWorld, row: int, wanted: Sequence[AdockSubscription]) -> set[int]:
    """The links from where a row is published to some subscriptions."""
    return {link.number for each in wanted for link in world.overlay.way(source(world, row), each.broker)}


def matched(world: AdockWorld, row: int) -> list[AdockSubscription]:
    return [each for number, each in enumerate(world.subscriptions) if world.routing.matches[row, number]]


def test_what_plain_subscriptions_want_crosses_at_once() -> None:
    world = adock.world(SMALL)
    found = [steiner(world, row, [each for each in matched(world, row) if not each.aggregate]) for row in world.rows]
    assert world.at_once == sum(map(len, found)) > 0


@pytest.mark.parametrize("setup", [SMALL, MANY_SOURCES])
def test_where_all_is_forwarded_a_publication_crosses_every_link_to_its_subscribers_once(setup: AdockSetup) -> None:
    world = adock.world(setup)
    outcome = adock_links.simulate(world, FORWARD)
    assert outcome.messages == sum(len(steiner(world, row, matched(world, row))) for row in world.rows)
    assert outcome.aggregated == 0
    assert outcome.publications == outcome.messages + setup.publications


@pytest.mark.parametrize("setup", [SMALL, MANY_SOURCES])
def test_where_all_is_aggregated_a_range_crosses_every_link_to_its_subscriber_once(setup: AdockSetup) -> None:
    world = adock.world(setup)
    outcome = adock_links.simulate(world, AGGREGATE)
    crossed: set[tuple[Range, int]] = set()
    for row, now in zip(world.rows, world.times_ms.tolist(), strict=True):
        subscriptions = matched(world, row)
        at_once = steiner(world, row, [each for each in subscriptions if not each.aggregate])
        for each in subscriptions:
            if each.aggregate:
                links = steiner(world, row, [each]) - at_once
                crossed |= {(range_, link) for range_ in each.open_ranges(now) for link in links}
    assert outcome.messages == world.at_once + len(crossed)
    assert (outcome.forwarded, outcome.aggregated, outcome.decisions) == (0, len(crossed), len(crossed))


# ---- whoever decides --------------------------------------------------------------------------------------------------


class Whim:
    """Decides by the toss of a coin, the same for the same range."""

    name: ClassVar[str] = "whim"

    def arrived(self, graph: Graph, item: int, ranges: Sequence[Range], now: int, *, crosses: bool) -> None:
        assert list(ranges) == sorted(ranges)
        assert all(each.end >= now for each in graph.ranges)
        assert crosses or set(graph.items_of(ranges[0])) >= {item}

    def decide(self, graph: Graph, range_: Range, now: int) -> Decision:
        assert graph.items_of(range_)
        assert range_.end == now
        assert range_ == min(graph.ranges)
        heads = blake2b(repr((range_, len(graph))).encode()).digest()[0] % 2
        return Decision(Choice.FORWARD if heads else Choice.AGGREGATE, ChoiceReason.ALWAYS)

    def state(self) -> bytes:
        return b""

    def restore(self, data: bytes) -> None: ...


def value(number: int) -> int:
    """Figures of which no two sums are the same, as good as certainly: a publication left out or counted twice shows."""
    return int.from_bytes(blake2b(number.to_bytes(8, "big"), digest_size=12).digest(), "big")


def counted(world: AdockWorld) -> dict[Range, int]:
    """What each range holds, straight from what was published."""
    found: Counter[Range] = Counter()
    for number, (row, now) in enumerate(zip(world.rows, world.times_ms.tolist(), strict=True)):
        for each in matched(world, row):
            if each.aggregate:
                found.update(dict.fromkeys(each.open_ranges(now), value(number)))
    return dict(found)


@laws(20)
@given(setup=SETUPS)
@example(setup=INTERWOVEN)
def test_every_subscriber_counts_every_publication_once_whoever_decides(setup: AdockSetup) -> None:
    world = adock.world(setup)
    expected = counted(world)
    for name in DECIDERS:
        assert adock_links.simulate(world, name, values=value).results == expected, name
    assert adock_links.simulate_with(world, Whim, values=value).results == expected
    assert adock_static.static(world, values=value).results == expected


@laws(8)
@given(setup=SETUPS)
def test_nobody_sends_less_than_the_optimum_of_what_was_offered(setup: AdockSetup) -> None:
    world = adock.world(setup)
    for name in DECIDERS:
        outcome = adock_links.simulate(world, name, record=True)
        assert outcome.forwarded + outcome.aggregated >= adock_static.optimum(outcome.offered), name


def test_what_is_recorded_changes_nothing() -> None:
    world = adock.world(SMALL)
    plain, recorded, valued = (
        adock_links.simulate(world, "adock", values=values, record=record)
        for values, record in ((None, False), (None, True), (value, False))
    )
    assert plain.messages == recorded.messages == valued.messages
    assert not plain.offered
    assert not plain.results


RANGES = [Range(10 + number, f"s{number}", number) for number in range(5)]


@given(st.dictionaries(st.frozensets(st.sampled_from(RANGES), min_size=1), st.integers(1, 9), max_size=6))
def test_further_items_of_a_group_do_not_change_the_optimum(groups: dict[frozenset[Range], int]) -> None:
    every = [ranges for ranges, count in groups.items() for _ in range(count)]
    assert adock_static.optimum({0: Counter(groups)}) == minimum_cover(dict(enumerate(every))).messages


def test_static_is_the_least_where_there_is_one_link_to_decide_at() -> None:
    """What waits at the first links is the same for all, so there nobody is below static."""
    world = adock.world(SMALL)
    waits = {front.link for front in world.routing.fronts if not front.crosses}
    lowest = [link.number for link in world.overlay.links if link.number in waits and link.height == 0]
    least = adock_static.optimum({link: adock_links.simulate(world, FORWARD, record=True).offered[link] for link in lowest})
    for name in DECIDERS:
        offered = adock_links.simulate(world, name, record=True).offered
        assert adock_static.optimum({link: offered[link] for link in lowest}) == least, name


# ---- what it takes ----------------------------------------------------------------------------------------------------


def test_what_a_run_takes_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    world = adock.world(SMALL)
    monkeypatch.setattr(adock_links, "matching_seconds", lambda *_: 0.001)
    outcome = adock_links.simulate(world, "adock")
    assert 0 < outcome.deciding_s < outcome.links_s
    assert outcome.matching_s == pytest.approx(0.001 * outcome.publications)
    assert outcome.computing_s == outcome.matching_s + outcome.links_s


def test_matching_takes_longer_with_more_to_ask() -> None:
    data = adock_data.dataset(adock_data.TRAFFIC)
    few, many = (min(_seconds(data, count) for _ in range(3)) for count in (3, 60))
    assert 0 < few < many


def _seconds(data: adock_data.Dataset, count: int) -> float:
    adock.matching_seconds.cache_clear()
    return adock.matching_seconds(data, adock_data.subscriptions(data, 1, count))


def test_rows_of_the_same_broker_that_match_the_same_go_the_same_way() -> None:
    world = adock.world(SMALL)
    routing, at = world.routing, np.array([source(world, row) for row in range(len(world.data))])
    rows = np.flatnonzero(routing.way_of_row == routing.way_of_row[0])
    assert len({(bytes(routing.matches[row]), at[row]) for row in rows}) == 1
    assert len({(bytes(matches), broker) for matches, broker in zip(routing.matches, at, strict=True)}) == len(routing.ways)
