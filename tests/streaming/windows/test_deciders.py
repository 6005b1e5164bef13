"""Every decider serves every range; those of the paper decide as it says, and fail where it says they do."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.windows.deciders import DECIDERS, Choice, ChoiceReason, Decision, UnknownDecider, decider
from streaming.windows.deciders.adock import algorithm_1
from streaming.windows.deciders.wad import exact_weight, weighs_one
from streaming.windows.graph import Graph, Range
from streaming.windows.static import minimum_cover
from streaming.world.one_link import OfferedItem, Replayed, offered, replay
from tidings.topic import Deciding

# Tumbling, sliding and sampling windows at once; shifts that divide the size and shifts that do not.
WINDOWS = {"a": (10, 10), "b": (10, 5), "c": (12, 4), "d": (7, 3), "e": (4, 9), "f": (30, 10), "g": (10, 5)}
items = st.tuples(st.integers(0, 3), st.sets(st.sampled_from(sorted(WINDOWS)), min_size=1, max_size=4), st.integers(0, 9))


def at_their_times(found: list[tuple[int, set[str], int]]) -> list[OfferedItem]:
    at, stream = 0, []
    for gap, names, crosses in found:
        at += gap
        stream.append(offered(at, WINDOWS, sorted(names), crosses=crosses == 0))
    return stream


streams = st.lists(items, max_size=40).map(at_their_times)


def waiting(stream: list[OfferedItem]) -> dict[int, frozenset[Range]]:
    return {number: item.ranges for number, item in enumerate(stream) if not item.crosses}


# ---- what all promise -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DECIDERS)
@given(stream=streams)
def test_each_range_has_one_aggregate_or_all_its_items_crossed(name: str, stream: list[OfferedItem]) -> None:
    link = replay(stream, decider(name))
    crossed = set(link.crossed)
    assert len(crossed) == len(link.crossed)
    assert not crossed & set(link.anyway)
    ranges = {range_: set() for each in stream for range_ in each.ranges}
    for number, each in waiting(stream).items():
        for range_ in each:
            ranges[range_].add(number)
    for range_, wanted in ranges.items():
        # Those that are in its aggregate did not cross before, and the others did: each counts exactly once.
        aggregate = set(link.aggregates.get(range_, ()))
        assert aggregate <= wanted
        before = {item for item in crossed if item in wanted} - aggregate
        assert before | aggregate == wanted
    assert link.messages >= minimum_cover(waiting(stream)).messages
    assert len(link.graph) == 0
    assert not link.graph.ranges


def kept(link: Replayed, name: str) -> None:
    """Put the graph and the decider away as bytes, and take them out again."""
    graph = Graph()
    for number, ranges in link.graph.items.items():
        graph.add(number, sorted(ranges), link.graph.degree(number))
    learned = decider(name)
    learned.restore(link.decider.state())
    assert learned.state() == link.decider.state()
    link.decider, link.graph = learned, graph


@pytest.mark.parametrize("name", DECIDERS)
@given(stream=streams, every=st.integers(1, 7))
def test_whoever_goes_on_from_kept_bytes_decides_the_same(name: str, stream: list[OfferedItem], every: int) -> None:
    link = Replayed(decider(name))
    for number, item in enumerate(stream):
        link.offer(item)
        if number % every == 0:
            kept(link, name)
    link.expire()
    assert link.decisions == replay(stream, decider(name)).decisions


@pytest.mark.parametrize("name", DECIDERS)
@given(stream=streams)
def test_a_decision_changes_nothing_in_the_graph(name: str, stream: list[OfferedItem]) -> None:
    link = Replayed(decider(name))
    for item in stream:
        link.offer(item)
    before = {number: sorted(ranges) for number, ranges in link.graph.items.items()}
    for range_ in sorted(link.graph.ranges)[:1]:
        link.decider.decide(link.graph, range_, range_.end)
    assert {number: sorted(ranges) for number, ranges in link.graph.items.items()} == before


def test_an_unknown_decider_is_named_with_those_there_are() -> None:
    assert list(DECIDERS) == list(Deciding)
    assert [decider(name).name for name in DECIDERS] == list(DECIDERS)
    with pytest.raises(UnknownDecider, match=r"no decider 'best'; there are .*adock, wad") as error:
        decider("best")
    assert isinstance(error.value, KeyError)


# ---- ADOCK ------------------------------------------------------------------------------------------------------------


@given(streams)
def test_adock_decides_as_algorithm_1_at_every_expiry(stream: list[OfferedItem]) -> None:
    class Checked:
        name = "checked"
        adock = decider("adock")

        def arrived(self, *_: object, crosses: bool) -> None: ...

        def decide(self, graph: Graph, range_: Range, now: int) -> Decision:
            decision = self.adock.decide(graph, range_, now)
            assert (decision.choice is Choice.AGGREGATE) == algorithm_1(graph.items, range_)
            return decision

    replay(stream, Checked())


@given(st.lists(st.sets(st.sampled_from("abcdefg"), min_size=1, max_size=4), max_size=30))
def test_adock_sends_the_least_where_all_is_known(classes: list[set[str]]) -> None:
    """All windows end at once, and nothing comes after: nothing is left to guess."""
    stream = [OfferedItem(1, frozenset(Range(10, name, 0) for name in names)) for names in classes]
    least = minimum_cover(waiting(stream)).messages
    assert replay(stream, decider("adock")).messages == least
    assert replay(stream, decider("foresight")).messages == least


@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
def test_figure_4_where_adock_sends_a_square(n: int) -> None:
    """Before range k ends, one publication fewer than there are ranges left comes for all of these."""
    ranges = [Range(10 * k, "s", 0) for k in range(1, n + 1)]
    stream = [
        OfferedItem(ranges[k].end - 1, frozenset(ranges[k:]))
        for k in range(n)
        for _ in range(max(n - 1 - k, 1))  # the last range gets one, too
    ]
    assert replay(stream, decider("adock")).messages == (n * n - n) // 2 + 1
    assert minimum_cover(waiting(stream)).messages == n


# ---- WAD --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 10, 30])
def test_figure_5_where_wad_sends_twice_as_much(n: int) -> None:
    """One publication matches all ranges but the last, the n - 1 others match all."""
    ranges = [Range(10 + k, "s", 0) for k in range(n)]
    stream = [OfferedItem(1, frozenset(ranges[:-1])), *(OfferedItem(1, frozenset(ranges)) for _ in range(n - 1))]
    assert replay(stream, decider("wad")).messages == 2 * (n - 1)
    assert minimum_cover(waiting(stream)).messages == n
    assert replay(stream, decider("adock")).messages == n


def test_figure_3() -> None:
    """N_a forwards p1 and p2. Then p3 and p4 come to N_b and N_c, and weigh one in both, though N_b is gone by then."""
    a, b, c = Range(10, "a", 0), Range(20, "b", 0), Range(30, "c", 0)
    stream = [OfferedItem(1, frozenset([a, b, c]))] * 2 + [OfferedItem(11, frozenset([b, c]))] * 2
    for name in ("adock", "wad"):
        link = replay(stream, decider(name))
        assert [(range_, decision.choice) for range_, decision in link.decisions] == [
            (a, Choice.FORWARD),
            (b, Choice.AGGREGATE),
            (c, Choice.AGGREGATE),
        ]
        assert link.messages == 4
    assert minimum_cover(waiting(stream)).messages == 3


def test_an_expired_range_still_counts_in_the_degree() -> None:
    """Otherwise the three items would weigh 3/2 when the second range ends."""
    first, second, third = (Range(10 * k, "s", 0) for k in (1, 2, 3))
    graph = Graph()
    for item in range(3):
        graph.add(item, [first, second, third, Range(40, "s", 0)])
    graph.aggregated(first)
    assert exact_weight([(len(group.items), group.degree) for group in graph.groups_of(second)]) == Fraction(3, 4)
    assert decider("wad").decide(graph, second, 20) == Decision(Choice.FORWARD, ChoiceReason.WEIGHT_BELOW_ONE)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), max_size=25))
def test_weights_add_up_exactly(groups: list[tuple[int, int]]) -> None:
    weight = sum((Fraction(count, degree) for count, degree in groups), Fraction(0))
    assert exact_weight(groups) == weight
    assert weighs_one(groups) == (weight >= 1)


@pytest.mark.parametrize(
    ("groups", "enough"),
    [
        ([(1, 3)] * 3, True),
        ([(1, 10)] * 10, True),  # ten times 0.1 is less than one in floats
        ([(1, 49)] * 49, True),
        ([(1, 10)] * 9 + [(99_999, 1_000_000)], False),
        ([(1, 10)] * 9 + [(10**12 - 1, 10**13)], False),  # nearer to one than floats are trusted
        ([], False),
    ],
)
def test_the_threshold_is_exactly_one(groups: list[tuple[int, int]], enough: bool) -> None:
    assert weighs_one(groups) is enough


# ---- the others -------------------------------------------------------------------------------------------------------


@given(streams)
def test_always_forward_sends_every_item_and_always_aggregate_every_range(stream: list[OfferedItem]) -> None:
    held = waiting(stream)
    assert replay(stream, decider("always-forward")).messages == sum(bool(ranges) for ranges in held.values())
    assert replay(stream, decider("always-aggregate")).messages == len({each for ranges in held.values() for each in ranges})


def test_bat_switches_when_the_rates_do() -> None:
    """Two subscriptions with a window of ten each: one item a window, then eight, then one again."""
    windows = {"a": (10, 10), "b": (10, 10)}
    rates = [1] * 5 + [8] * 5 + [1] * 5
    stream = [offered(10 * n + k, windows, "ab") for n, rate in enumerate(rates) for k in range(rate)]
    link = replay(stream, decider("bat"))
    choices = [decision.choice for range_, decision in link.decisions if range_.subscription == "a"]
    # What was best in a period is known at its end, and done in the next.
    aggregate, forward = Choice.AGGREGATE, Choice.FORWARD
    assert choices == [aggregate, *[forward] * 5, *[aggregate] * 5, *[forward] * 4]
    assert {decision.reason for _, decision in link.decisions} == {ChoiceReason.RATE_OF_ITEMS, ChoiceReason.RATE_OF_RANGES}


def test_bat_does_not_count_what_crosses_anyway() -> None:
    windows = {"a": (10, 10), "b": (10, 10)}
    stream = [offered(10 * n + k, windows, "ab", crosses=k > 0) for n in range(6) for k in range(8)]
    assert replay(stream, decider("bat")).decisions[-1][1].choice is Choice.FORWARD
