"""Foresight learns what complete windows weighed, does better for it, and is never much worse than WAD."""

from __future__ import annotations

from math import exp, factorial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.windows.deciders import Because, decider
from streaming.windows.deciders.foresight import ALLOWANCE, SLACK, Foresight, excess
from streaming.windows.deciders.shadow import Past, Shadow
from streaming.windows.graph import Range
from streaming.windows.static import minimum_cover
from streaming.windows.testing import Offered, Replayed, offered, replay

WINDOWS = {"a": (10, 10), "b": (10, 5), "c": (12, 4), "d": (7, 3), "e": (4, 9), "f": (30, 10), "g": (10, 5)}
items = st.tuples(st.integers(0, 3), st.sets(st.sampled_from(sorted(WINDOWS)), min_size=1, max_size=4), st.integers(0, 9))


def at_their_times(found: list[tuple[int, set[str], int]]) -> list[Offered]:
    at, stream = 0, []
    for gap, names, crosses in found:
        at += gap
        stream.append(offered(at, WINDOWS, sorted(names), crosses=crosses == 0))
    return stream


streams = st.lists(items, max_size=60).map(at_their_times)


def poisson(seed: int, windows: dict[str, tuple[int, int]], rates: dict[str, float], until: int) -> list[Offered]:
    """Items of each class at random times; a class is a word with a letter for each subscription."""
    chance = Random(seed)
    found = []
    for names, rate in rates.items():
        at = chance.expovariate(rate)
        while at < until:
            found.append((int(at), names))
            at += chance.expovariate(rate)
    return [offered(at, windows, names) for at, names in sorted(found)]


def optimum(stream: list[Offered]) -> int:
    return minimum_cover({number: item.ranges for number, item in enumerate(stream) if not item.crosses}).messages


# ---- the shadow and the bound -----------------------------------------------------------------------------------------


def account(link: Replayed) -> tuple[int, int]:
    """What was sent, and what WAD would have sent, when all is over."""
    assert isinstance(link.decider, Foresight)
    shadow = link.decider._shadow
    shadow.settle(Range(10**9, "", 0), ())
    return link.decider._sent, shadow.sent


@given(streams)
def test_the_shadow_sends_what_wad_sends(stream: list[Offered]) -> None:
    link = replay(stream, decider("foresight"))
    sent, by_wad = account(link)
    assert sent == link.messages
    assert by_wad == replay(stream, decider("wad")).messages


class Misled(Foresight):
    """Does the wrong thing whenever it may, so only the bound can help."""

    def _decide(self, graph, spot, items):  # type: ignore[no-untyped-def]
        wrong = decider("always-forward" if items > 1 else "always-aggregate")
        return wrong.decide(graph, spot.range, 0)


@settings(max_examples=25)
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
    stream = poisson(1, WINDOWS, {"ab": 5.0, "g": 5.0}, 2000)
    link, wad = replay(stream, Misled()), replay(stream, decider("wad"))
    followed = [decision.reason is Because.AS_WAD for _, decision in link.decisions]
    assert 0.3 < sum(followed) / len(followed) < 1
    assert link.messages < 1.5 * wad.messages
    assert replay(stream, decider("always-forward")).messages > 10 * wad.messages


# ---- what it learns ---------------------------------------------------------------------------------------------------


def learned(*weights: tuple[int, float], size: int = 10, trusted: int = 0) -> Past:
    past = Past(weights[0][0], size, trusted)
    for start, weight in weights:
        past.add(Range(start + size, "s", start), weight)
    return past


def test_the_mean_of_steady_windows_is_their_weight() -> None:
    assert learned(*((10 * n, 3.0) for n in range(20))).mean == pytest.approx(3.0)


def test_later_windows_count_more() -> None:
    rising = learned(*((10 * n, float(n >= 20)) for n in range(40)))
    assert 0.6 < rising.mean < 0.9


def test_a_window_without_items_weighs_nothing() -> None:
    """Every fourth window has items: nobody tells of the others."""
    sparse = learned((0, 2.0), (10, 2.0), *((40 * n, 2.0) for n in range(1, 60)))
    assert sparse.mean == pytest.approx(0.5, rel=0.2)


def test_of_the_first_windows_of_a_new_subscription_the_fullest_counts() -> None:
    young = learned((0, 0.2), (2, 0.9), (4, 0.7), trusted=10)
    assert young.mean == 0.9
    young.add(Range(22, "s", 12), 0.1)
    assert young.mean < 0.9


def test_a_window_that_began_before_the_link_is_taken_in_full() -> None:
    """Windows of 60 with a shift of 10, one item a time unit from the start: each weighs 10 in full."""
    stream = [offered(at, {"a": (60, 10)}, "a") for at in range(30)]
    link = replay(stream, decider("foresight"))
    shadow = link.decider._shadow  # type: ignore[attr-defined]
    assert shadow.began == 0
    early = Replayed(decider("foresight"))
    for item in stream:
        early.offer(item)
    assert early.decider._shadow.past["a"].mean == pytest.approx(10.0, rel=0.1)  # type: ignore[attr-defined]


def test_who_asks_no_more_is_forgotten() -> None:
    shadow = Shadow()
    shadow.past["gone"] = Past(0, 10, 0)
    for n in range(5000):
        shadow._learn(Range(10 * n + 10, "here", 10 * n), 1.0)
    assert set(shadow.past) == {"here"}


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


def test_an_item_of_one_range_alone_is_forwarded() -> None:
    stream = [offered(1, {"a": (10, 5), "b": (30, 30)}, "ab")]
    [(_, decision)] = replay(stream, decider("foresight")).decisions
    assert decision.reason is Because.SINGLE
