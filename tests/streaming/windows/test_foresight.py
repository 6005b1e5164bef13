"""Foresight learns what complete windows weighed, does better for it, and is never much worse than WAD."""

from __future__ import annotations

from math import exp, factorial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.windows.deciders import Choice, ChoiceReason, decider
from streaming.windows.deciders.foresight import ALLOWANCE, SLACK, Foresight, excess
from streaming.windows.deciders.shadow import Past, Shadow
from streaming.windows.graph import Graph, Range
from streaming.windows.static import minimum_cover
from streaming.world.one_link import OfferedItem, Replayed, offered, replay

WINDOWS = {"a": (10, 10), "b": (10, 5), "c": (12, 4), "d": (7, 3), "e": (4, 9), "f": (30, 10), "g": (10, 5)}
items = st.tuples(st.integers(0, 3), st.sets(st.sampled_from(sorted(WINDOWS)), min_size=1, max_size=4), st.integers(0, 9))


def at_their_times(found: list[tuple[int, set[str], int]]) -> list[OfferedItem]:
    at, stream = 0, []
    for gap, names, crosses in found:
        at += gap
        stream.append(offered(at, WINDOWS, sorted(names), crosses=crosses == 0))
    return stream


streams = st.lists(items, max_size=60).map(at_their_times)


def poisson(seed: int, windows: dict[str, tuple[int, int]], rates: dict[str, float], until: int) -> list[OfferedItem]:
    """Items of each class at random times; a class is a word with a letter for each subscription."""
    chance = Random(seed)
    found = []
    for names, rate in rates.items():
        at = chance.expovariate(rate)
        while at < until:
            found.append((int(at), names))
            at += chance.expovariate(rate)
    return [offered(at, windows, names) for at, names in sorted(found)]


def optimum(stream: list[OfferedItem]) -> int:
    return minimum_cover({number: item.ranges for number, item in enumerate(stream) if not item.crosses}).messages


# ---- the shadow and the bound -----------------------------------------------------------------------------------------


def account(link: Replayed) -> tuple[int, int]:
    """What was sent, and what WAD would have sent, when all is over."""
    assert isinstance(link.decider, Foresight)
    link.decider._shadow.settle(Range(10**9, "", 0), ())
    return link.decider._sent, link.decider._shadow.sent


@given(streams)
def test_the_shadow_sends_what_wad_sends(stream: list[OfferedItem]) -> None:
    link = replay(stream, decider("foresight"))
    sent, by_wad = account(link)
    assert sent == link.messages
    assert by_wad == replay(stream, decider("wad")).messages


class Misled(Foresight):
    """Does the wrong thing whenever it may, so only the bound can help."""

    def _decide(self, graph, spot, items):  # type: ignore[no-untyped-def]
        wrong = decider("always-forward" if items > 1 else "always-aggregate")
        return wrong.decide(graph, spot.range, 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 3.0, 20.0]), st.sampled_from([Foresight, Misled]))
def test_at_no_time_is_more_sent_than_the_bound_allows(seed: int, rate: float, made: type[Foresight]) -> None:
    stream = poisson(seed, WINDOWS, {"ab": rate, "abc": rate / 2, "g": rate, "fd": rate / 3, "e": rate / 4}, 60)
    link, wad = Replayed(made()), Replayed(decider("wad"))
    for item in stream:
        link.offer(item)
        wad.offer(item)
        assert link.messages <= (1 + SLACK) * wad.messages + ALLOWANCE + link.most_open
    link.expire()
    wad.expire()
    assert link.messages <= (1 + SLACK) * wad.messages + ALLOWANCE + link.most_open


def test_whoever_is_misled_follows_wad_until_the_account_is_in_order() -> None:
    stream = poisson(1, WINDOWS, {"ab": 5.0, "g": 5.0, "cd": 0.5}, 1500)
    link, wad = replay(stream, Misled()), replay(stream, decider("wad"))
    by_wad = {range_: decision.choice for range_, decision in wad.decisions}
    followed = [(range_, decision.choice) for range_, decision in link.decisions if decision.reason is ChoiceReason.AS_WAD]
    assert 0.3 < len(followed) / len(link.decisions) < 1
    # Where WAD has nothing left to send it has no choice, and what we still have is forwarded.
    assert all(choice is by_wad.get(range_, Choice.FORWARD) for range_, choice in followed)
    assert {choice for _, choice in followed} == set(Choice)
    assert link.messages < 1.5 * wad.messages
    assert replay(stream, decider("always-forward")).messages > 5 * wad.messages


def test_groups_that_became_alike_while_kept_as_bytes_count_apart() -> None:
    """Two groups are in the same ranges after their first ones were aggregated, so a graph from bytes has one of them."""
    a, b, *later = (Range(end, name, 0) for end, name in ((10, "a"), (10, "b"), (20, "c"), (30, "d"), (40, "e")))
    stream = [
        OfferedItem(1, frozenset(each)) for each in ([a], [a], [b], [b], [a, *later], [a, *later], [b, *later], [b, *later])
    ]
    link = Replayed(decider("foresight"))
    for item in stream:
        link.offer(item)
    link.expire(15)
    assert set(link.aggregates) == {a, b}
    graph = Graph()
    for number, ranges in link.graph.items.items():
        graph.add(number, ranges, link.graph.degree(number))
    assert len(graph.groups()) == 1 < len(link.graph.groups())
    link.graph = graph
    link.expire()
    assert account(link) == (5, 5)
    assert replay(stream, decider("wad")).messages == 5


def rebuilt(graph: Graph) -> Graph:
    """The same items in a graph that remembers nothing else."""
    made = Graph()
    for number, ranges in graph.items.items():
        made.add(number, ranges, graph.degree(number))
    return made


busy = st.integers(0, 10**6).map(
    lambda seed: poisson(seed, WINDOWS, {"ab": 0.5, "cg": 0.3, "dga": 0.3, "f": 0.2, "e": 0.1, "fcb": 0.2}, 60)
)
"""Long enough for much to be open when something happens."""


def same(link: Replayed, other: Replayed) -> None:
    """Both decided alike, and have learned the same."""
    assert link.decisions == other.decisions
    if isinstance(link.decider, Foresight):
        assert account(link) == account(other)
        one, two = known(link).past, known(other).past
        assert one.keys() == two.keys()
        for name, past in one.items():
            assert (past.weight, past.windows) == pytest.approx((two[name].weight, two[name].windows))


@settings(max_examples=60, deadline=None)
@given(stream=busy, at=st.integers(5, 60), name=st.sampled_from(["foresight", "wad", "always-aggregate"]))
def test_who_takes_over_a_link_is_not_misled_by_what_others_wrote_on_it(stream: list[OfferedItem], at: int, name: str) -> None:
    link, other = Replayed(decider(name)), Replayed(decider(name))
    for each in (link, other):
        for number, item in enumerate(stream):
            if number == at:
                each.decider = decider("foresight")
                each.graph = rebuilt(each.graph) if each is other else each.graph
            each.offer(item)
        each.expire()
    same(link, other)


@settings(max_examples=60, deadline=None)
@given(stream=busy, at=st.integers(5, 60), gone=st.sampled_from("abcdfg"), latest_first=st.booleans())
def test_ranges_that_leave_by_another_way_do_not_mislead_it(
    stream: list[OfferedItem], at: int, gone: str, latest_first: bool
) -> None:
    """Whoever asked for them asks no more. It goes on as one that was kept as bytes and has to look at every group."""
    link, other = Replayed(decider("foresight")), Replayed(decider("foresight"))
    for each in (link, other):
        for number, item in enumerate(stream):
            if number == at:
                for range_ in sorted(each.graph.ranges, reverse=latest_first):
                    if range_.subscription == gone:
                        each.graph.aggregated(range_)
                if each is other:
                    state = each.decider.state()
                    each.decider = decider("foresight")
                    each.decider.restore(state)
                    each.graph = rebuilt(each.graph)
            each.offer(item)
        each.expire()
    same(link, other)


# ---- what it learns ---------------------------------------------------------------------------------------------------


def learned(*windows: tuple[int, float], trusted: int = 0) -> Past:
    past = Past(windows[0][0], 10, trusted)
    for start, had in windows:
        past.add(Range(start + 10, "s", start), had, 1.0, usual=1.0)
    return past


def test_the_mean_of_steady_windows_is_what_they_have() -> None:
    past = learned(*((10 * n, 3.0) for n in range(40)))
    assert past.mean(usual=3.0) == pytest.approx(3.0)
    assert 2.5 < past.mean(usual=1.0) < 3.0


def test_later_windows_count_more() -> None:
    assert 0.6 < learned(*((10 * n, float(n >= 20)) for n in range(24))).mean(usual=1.0) < 0.9
    assert 0.1 < learned(*((10 * n, float(n < 20)) for n in range(24))).mean(usual=0.0) < 0.4


def test_a_window_without_items_has_nothing() -> None:
    """Every fourth window has items: nobody tells of the others."""
    sparse = learned((0, 2.0), (10, 2.0), *((40 * n, 2.0) for n in range(1, 60)))
    assert sparse.windows == pytest.approx(4.0, rel=0.1)
    assert sparse.mean(usual=0.5) < 0.75


def test_of_the_first_windows_of_a_new_subscription_the_fullest_counts() -> None:
    young = learned((0, 0.2), (2, 0.9), (4, 0.7), trusted=10)
    assert (young.weight, young.windows) == (0.9, 1.0)
    young.add(Range(22, "s", 12), 0.1, 1.0, usual=1.0)
    assert young.windows > 1


def test_who_has_plenty_claims_less_and_who_lacks_claims_more() -> None:
    assert learned(*((10 * n, 4.0) for n in range(10))).claim < 0.8
    assert learned(*((10 * n, 0.1) for n in range(10))).claim > 1.2
    assert 0.9 < learned(*((10 * n, 1.0) for n in range(10))).claim < 1.1


def known(link: Replayed) -> Shadow:
    assert isinstance(link.decider, Foresight)
    return link.decider._shadow


def test_a_window_that_began_before_the_link_counts_for_what_was_seen_of_it() -> None:
    """Windows of 60 with a shift of 10, one item a time unit from the start: each has ten messages' worth."""
    link = Replayed(decider("foresight"))
    for at in range(100, 131):
        link.offer(offered(at, {"a": (60, 10)}, "a"))
    past = known(link).past["a"]
    assert known(link).began == 100
    assert past.weight / past.windows == pytest.approx(10.0, rel=0.01)


def test_items_are_divided_among_those_who_need_them() -> None:
    """Most items of `b` are also for `a`, which has plenty of its own. With half of each, `b` would have too little."""
    windows = {"a": (10, 10), "b": (10, 10)}
    stream = poisson(3, windows, {"a": 3.0, "ab": 0.1, "b": 0.02}, 2000)
    past = known(replay(stream, decider("foresight"))).past
    assert past["b"].claim > 5 * past["a"].claim


def test_who_asks_no_more_is_forgotten() -> None:
    shadow = Shadow()
    shadow.past["gone"] = Past(0, 10, 0)
    for n in range(5000):
        range_ = Range(10 * n + 10, "here", 10 * n)
        shadow.settle(range_, ())
        shadow.tidy((), range_.end)
    assert set(shadow.past) == {"here"}


def test_nothing_is_kept_of_what_is_over() -> None:
    """Whatever was decided; and of groups that left the graph by another way nothing is kept for long."""
    link = Replayed(decider("foresight"))
    for item in poisson(5, WINDOWS, {"ab": 0.5, "cg": 0.3, "dga": 0.3, "f": 0.2}, 3000):
        link.offer(item)
        if item.at % 100 == 0:
            for range_ in sorted(link.graph.ranges)[-1:]:
                link.graph.aggregated(range_)
    link.expire()
    shadow = known(link)
    shadow.settle(Range(10**9, "a", 0), ())
    assert not shadow._gone
    assert not shadow._order
    assert sum(map(len, shadow._parts.values())) <= 10
    shadow._settled = -1
    shadow.tidy(link.graph.groups(), 3100)
    assert not shadow._here
    assert not shadow._parts


@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0, 7.5, 30.0])
@pytest.mark.parametrize("room", [-4, -1, 0, 1, 5, 29])
@pytest.mark.parametrize("most", [1, 2, 10])
def test_the_excess_is_that_of_a_poisson_number(mean: float, room: int, most: int) -> None:
    chances = [exp(-mean) * mean**n / factorial(n) for n in range(120)]
    exact = sum(chance * min(max(n - room, 0), most) for n, chance in enumerate(chances))
    assert excess(mean, room, most) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("mean", "room"), [(49.9, 45), (49.9, 60)])
def test_the_excess_of_large_numbers_goes_on_where_that_of_small_ones_ends(mean: float, room: int) -> None:
    assert excess(mean + 0.2, room, 5) == pytest.approx(excess(mean, room, 5), abs=0.1)
    assert excess(mean, room + 0.5, 5) == pytest.approx((excess(mean, room, 5) + excess(mean, room + 1, 5)) / 2)


# ---- what it is good for ----------------------------------------------------------------------------------------------

OVERLAPPING = {"a": (60, 10), "b": (60, 10)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_items_outnumber_ranges_in_the_long_run_it_aggregates(seed: int) -> None:
    """A quarter more items than ranges. To ADOCK each range alone has fewer items than there are open ranges, so it forwards."""
    stream = poisson(seed, OVERLAPPING, {"ab": 0.25}, 6000)
    least = optimum(stream)
    assert replay(stream, decider("foresight")).messages < 1.05 * least
    assert replay(stream, decider("adock")).messages > 1.1 * least


@pytest.mark.parametrize("rate", [0.05, 0.15, 0.4, 2.0])
def test_it_is_near_the_optimum_at_any_rate(rate: float) -> None:
    stream = poisson(7, WINDOWS | OVERLAPPING, {"ab": rate, "cg": rate, "dga": rate / 2, "f": rate / 2, "e": rate / 4}, 1500)
    least = optimum(stream)
    sent = {name: replay(stream, decider(name)).messages for name in ("foresight", "adock", "wad")}
    assert sent["foresight"] <= 1.04 * least
    assert sent["foresight"] <= 1.02 * min(sent["adock"], sent["wad"])


def test_where_nothing_is_left_to_come_it_sends_the_least() -> None:
    """One range next to the first has plenty, but of items that cross for others anyway. All end at once."""
    first, poor, rich, *others = (Range(10, name, 0) for name in "abcdefghijklmno")
    stream = [OfferedItem(1, frozenset([first, poor, rich]))] * 2
    stream += [OfferedItem(1, frozenset([rich, *others[2 * n : 2 * n + 2]])) for n in range(6)]
    link = replay(stream, decider("foresight"))
    assert link.messages == optimum(stream) == 8
    assert link.decisions[0][1].reason is ChoiceReason.NOT_IN_COVER


def test_an_item_of_one_range_alone_is_forwarded() -> None:
    stream = [offered(1, {"a": (10, 5), "b": (30, 30)}, "ab")]
    [(_, decision)] = replay(stream, decider("foresight")).decisions
    assert decision.reason is ChoiceReason.SINGLE
