"""Agele's set-up: what is added up is what is simulated, the books hold, the same seed is the same result, claims can fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import networkx as nx
import pytest

from experiments.agele import better as agele_better
from experiments.agele import fig3 as agele_fig3
from experiments.agele import fig4 as agele_fig4
from experiments.agele import fig5 as agele_fig5
from experiments.agele import fig6 as agele_fig6
from experiments.agele.comparison import BesideSiena, SeedSample, rising
from experiments.agele.setup import (
    AgeleSetup,
    Outcomes,
    Times,
    event_times,
    gatherer_of,
    measure,
    overlay_of,
    plan_of,
    publications,
    simulate,
)
from experiments.agele.ways import Siena, Ways, detour, gathered, siena, ways_of
from experiments.harness import PaperClaim, Settings, Spread
from streaming.model.outputs import MessageReason, Outcome

SMALL = [(1, 12, "random"), (2, 30, "random"), (3, 40, "scale-free"), (4, 25, "tree")]


def small(seed: int, brokers: int, kind: str, **more: Any) -> AgeleSetup:
    return AgeleSetup(seed, brokers=brokers, overlay=kind, **more)


def figures(outcomes: Outcomes) -> tuple[Any, ...]:
    """All of them; times but for rounding, as sums of floats differ by their order."""
    times = (round(time, 9) for time in (outcomes.times.received, outcomes.times.known))
    return outcomes.messages, outcomes.duplicates, outcomes.merged, outcomes.link_messages, *times


# ---- what is added up is what is simulated ----------------------------------------------------------------------------


@pytest.mark.parametrize("place", SMALL)
def test_siena_added_up_from_distances_is_siena_simulated(place: tuple[int, int, str]) -> None:
    setup = small(*place)
    # A broker that remembers nothing tells its subscriber every message.
    simulator = simulate(replace(setup, gatherer="none", redundant=0))
    times = event_times(publications(setup), (tell for _, tell in simulator.told))
    found = siena(setup, ways_of(setup))
    assert (found.times.received, found.times.known) == pytest.approx((times.received, times.known), abs=1e-9)
    assert found.link_messages == simulator.link_messages


@pytest.mark.parametrize("place", SMALL)
@pytest.mark.parametrize(
    "thresholds",
    [{"merge": 0, "redundant": 0, "burst": 50}, {"merge": 4, "redundant": 10}, {"merge": 10, "redundant": 10, "burst": 30}],
    ids=str,
)
def test_the_gatherer_alone_comes_to_what_the_whole_overlay_comes_to(
    place: tuple[int, int, str], thresholds: Mapping[str, float]
) -> None:
    setup = small(*place, **thresholds)
    assert figures(gathered(setup, ways_of(setup))) == figures(measure(setup))


@pytest.mark.parametrize(
    "more", [{"gatherer": "median"}, {"gatherer": "root"}, {"rendezvous": "b07"}, {"redundant": 1e9}], ids=str
)
def test_so_it_does_wherever_the_gatherer_is_and_however_long_it_remembers(more: Mapping[str, Any]) -> None:
    setup = AgeleSetup(5, brokers=40, **more)
    ways = ways_of(setup)
    assert figures(gathered(setup, ways)) == figures(measure(setup))
    if "rendezvous" in more:
        assert ways.gatherer == 6
        assert figures(gathered(AgeleSetup(5, brokers=40), replace(ways, gatherer=6))) == figures(gathered(setup, ways))


@pytest.mark.parametrize(("seed", "brokers", "burst"), [(4, 30, 2), (11, 100, 4)])
def test_so_it_does_when_messages_arrive_at_the_same_time(seed: int, brokers: int, burst: float) -> None:
    setup = AgeleSetup(seed, brokers=brokers, burst=burst, merge=0, redundant=1, messages_per_publisher=3)
    assert figures(gathered(setup, ways_of(setup))) == figures(measure(setup))


def test_where_brokers_on_the_way_decide_too_the_gatherer_alone_is_not_enough() -> None:
    setup = AgeleSetup(1, brokers=20, early=True)
    with pytest.raises(ValueError, match="only `measure`"):
        gathered(setup, ways_of(setup))


@pytest.mark.parametrize("place", SMALL)
def test_without_thresholds_what_is_left_is_the_detour_and_with_them_no_more_than_the_hold_comes_on_top(
    place: tuple[int, int, str],
) -> None:
    setup = small(*place, merge=0, redundant=0)
    ways = ways_of(setup)
    detoured = detour(setup, ways)
    passed = gathered(setup, ways).times
    assert (passed.received, passed.known) == pytest.approx((detoured.received, detoured.known))
    assert passed.over(siena(setup, ways).times).received >= 0
    for merge in (1, 4, 10):
        held = gathered(replace(setup, merge=merge, redundant=10), ways).times
        assert held.received <= detoured.received + merge


def test_ways_are_those_of_the_routing_tree() -> None:
    setup = AgeleSetup(3, brokers=40)
    overlay = overlay_of(setup)
    ways, plan = ways_of(setup, overlay), plan_of(setup, overlay)
    tree = nx.Graph({broker: list(links) for broker, links in ways.tree.items()})
    assert nx.is_tree(tree)
    assert {broker: set(links) for broker, links in plan.route("workload").parts[0].tree.items()} == {
        broker: set(links) for broker, links in ways.tree.items()
    }, "what each broker wants makes no difference to the tree"
    lengths = dict(nx.all_pairs_shortest_path_length(tree))
    for a, one in enumerate(overlay.brokers):
        for b, other in enumerate(overlay.brokers):
            assert ways.hops[a, b] == lengths[one][other]
    assert overlay.brokers[ways.gatherer] == gatherer_of(plan)
    assert ways.eccentricities[ways.gatherer] == ways.eccentricities.min() == nx.radius(tree)
    assert sorted(at for brokers in ways.wanted.values() for at in brokers) == list(range(40))


# ---- the books --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"early": True}, {"gatherer": "root", "redundant": 1e9, "early": True}], ids=str)
def test_every_message_is_suppressed_or_leaves_the_gatherer_or_nobody_wanted_it(more: Mapping[str, Any]) -> None:
    setup = AgeleSetup(7, brokers=50, **more)
    simulator, outcomes = simulate(setup), measure(setup)
    assert all(books.balanced for books in simulator.books.values())
    books = simulator.books[gatherer_of(simulator.plan)]
    left = books.total(Outcome.TOLD) + books.total(Outcome.FORWARDED) + books.outcomes[Outcome.MERGED, MessageReason.UNWANTED]
    assert books.total(Outcome.HELD) == 0
    assert outcomes.suppressed == outcomes.duplicates + outcomes.merged
    assert round(outcomes.suppressed * outcomes.messages) + left == outcomes.messages == len(publications(setup))
    assert min(outcomes.merged, outcomes.duplicates) > 0
    assert outcomes.suppressed < 1


def test_dropping_early_spares_links_and_still_everybody_learns_everything() -> None:
    setup = AgeleSetup(7, brokers=50)

    def learned(simulator: Any) -> dict[str, set[str]]:
        facts: dict[str, set[str]] = {}
        for _, tell in simulator.told:
            facts.setdefault(tell.notification.subscription, set()).update(tell.notification.news)
        return facts

    plain, early = simulate(setup), simulate(replace(setup, early=True))
    assert learned(early) == learned(plain)
    assert early.link_messages < plain.link_messages


# ---- the same again ---------------------------------------------------------------------------------------------------


def test_the_same_seed_is_the_same_run_and_another_is_another() -> None:
    one, again, other = (measure(AgeleSetup(seed, brokers=30)) for seed in (1, 1, 2))
    assert one == again != other


def shrink(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **smaller: Any) -> None:
    monkeypatch.setattr(module, "AgeleSetup", partial(AgeleSetup, brokers=40))
    for name, value in smaller.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize(
    ("module", "smaller"),
    [
        (agele_fig3, {"MESSAGES": (1.0,)}),
        (agele_fig4, {}),
        (agele_fig5, {"SOME_SIZES": (100,)}),
        (agele_fig6, {"SOME_SIZES": (100,), "_overlays": lambda _: [AgeleSetup(1, brokers=40)]}),
        (agele_better, {"SOME_SIZES": (30, 40)}),
    ],
)
def test_an_experiment_gives_the_same_again(monkeypatch: pytest.MonkeyPatch, module: ModuleType, smaller: dict[str, Any]) -> None:
    shrink(monkeypatch, module, **smaller)
    one, again = (module.EXPERIMENT.run(Settings(quick=True)) for _ in range(2))
    assert one == again
    assert one.claims


def test_an_experiment_gives_something_else_for_another_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, agele_fig4)
    one, other = (agele_fig4.EXPERIMENT.run(Settings(quick=True, seed=seed)) for seed in (1, 2))
    assert [row["T_r"] for row in one.rows] == [row["T_r"] for row in other.rows]
    assert one.rows != other.rows


# ---- comparing --------------------------------------------------------------------------------------------------------


def flat(value: float) -> Spread:
    return Spread(value, value, value, 3)


def sample(**figures: float) -> SeedSample:
    usual = {"suppressed": 0.75, "duplicates": 0.5, "merged": 0.25, "received": 0.1, "known": 0.1, "load": 0.2}
    return SeedSample(**{name: flat(value) for name, value in (usual | figures).items()})


def broken(claims: list[PaperClaim]) -> list[str]:
    return [claim.claim for claim in claims if not claim.holds]


def test_a_run_beside_siena() -> None:
    ours = Outcomes(messages=10, duplicates=0.5, merged=0.25, times=Times(66.0, 15.0), link_messages=30)
    run = BesideSiena(ours, Siena(Times(60.0, 12.0), 120))
    assert (run.more.received, run.more.known) == pytest.approx((0.1, 0.25))
    cells = SeedSample.of([run, run]).cells()
    assert (cells["suppressed"], cells["load"], cells["known_low"]) == pytest.approx((0.75, 0.25, 0.25))


def test_rising() -> None:
    assert rising([])
    assert rising([1, 1, 2])
    assert not rising([1, 3, 2])
    assert rising([1, 3, 2], slack=1)


# ---- claims -----------------------------------------------------------------------------------------------------------


def fig3(**changed: Any) -> list[str]:
    """Which claims do not hold if the figure is the paper's, but for some points."""
    points = {}
    for burst, share in ((50, 0.8), (100, 0.75), (150, 0.7)):
        for merge, more in ((0, 0.0), (4, 0.08), (10, 0.1)):
            held = {"suppressed": share + more, "duplicates": share, "merged": more, "received": 0.05 + more}
            points[burst, merge] = sample(**held)
    return broken(agele_fig3.claims(points | changed.get("points", {})))


def test_the_claims_of_figure_3() -> None:
    assert fig3() == []
    usual = {"duplicates": 0.75, "merged": 0.08}
    assert fig3(points={(100, 4): sample(suppressed=0.79, received=0.14, known=0.16, **usual)}) == [
        "That costs at most 15 % more time (known)",
        "The share levels off: T_m from 4 to 10 adds less than from 0 to 4, at every T_b",
    ]
    assert fig3(points={(150, 10): sample(suppressed=0.8, received=0.35, duplicates=0.3)}) == [
        "Nowhere it costs more than 34 % (received)",
        "T_m matters only somewhat: of what is suppressed, most are duplicates at every T_m",
    ]
    slow = fig3(points={(100, 10): sample(suppressed=0.85, received=0.25, **usual)})
    assert slow == ["With T_b = 100 no T_m costs more than 24 % (received)"]
    poor = fig3(points={(100, 4): sample(suppressed=0.59, received=0.13, duplicates=0.5)})
    assert "With T_b = 100 and T_m = 4, over 70 % of the messages are suppressed" in poor
    assert "At least 60 % are suppressed everywhere" in poor
    assert "The shorter the bursts, the more is suppressed, at every T_m" in poor
    [slower] = fig3(points={(50, 0): sample(suppressed=0.8, received=0.2)})
    assert slower == "Holding back costs time: T_m = 10 takes longer than T_m = 0, at every T_b (received)"


def test_the_claims_of_figure_4() -> None:
    points = {
        (burst, redundant): sample(suppressed=share * redundant / 10, received=0.04, known=0.04)
        for burst, share in ((50, 0.9), (100, 0.8), (150, 0.7))
        for redundant in (0, 3, 10)
    }
    assert broken(agele_fig4.claims(points)) == []
    points[100, 10] = sample(suppressed=0.1, received=0.04, known=0.08)
    assert broken(agele_fig4.claims(points)) == [
        "What is suppressed depends strongly on T_r: it grows with it from nothing to most of the messages, at every T_b",
        "The shorter the bursts, the more is suppressed, at every T_r",
        "Without holding back, T_r = 10 costs at most 6 % more time (known)",
        "That depends only slightly on T_b (known): by no more than 3 points",
        "The time does not depend on T_r (known): less than 1 point from T_r = 0",
    ]
    points[50, 0] = sample(suppressed=0.0, received=0.07, known=0.04)
    assert "The way over the gatherer alone (T_m = T_r = 0) costs at most 6 % more time (received)" in broken(
        agele_fig4.claims(points)
    )


def test_the_claims_of_figure_5() -> None:
    points = {(kind, size): sample(suppressed=0.5 + size / 1e4) for kind in agele_fig5.KINDS for size in (100, 800, 3200)}
    assert broken(agele_fig5.claims(points)) == []
    points["random", 800] = sample(suppressed=0.5, merged=0.1, received=0.33)
    points["scale-free", 3200] = sample(suppressed=0.82, merged=0.01, known=0.33)
    assert broken(agele_fig5.claims(points)) == [
        "random: the more brokers, the more is suppressed",
        "random: the share that is merged hardly changes up to 800 brokers (by no more than a quarter)",
        "random: the time increase is at most 32 % with any number of brokers (received)",
        "scale-free: the time increase is at most 32 % with any number of brokers (known)",
    ]


def placed(received: float = 60, known: float = 12, links: float = 100) -> agele_fig6.Placed:
    return agele_fig6.Placed(flat(received), flat(known), flat(links), flat(1))


def test_the_claims_of_figure_6() -> None:
    by_eccentricity = {7: placed(60, 12, 100), 8: placed(62, 13, 110), 9: placed(62, 14, 105)}
    assert broken(agele_fig6.claims(by_eccentricity)) == ["The farther from the centre the gatherer is, the worse: link messages"]
    found = {
        size: agele_fig6.CentreFound(flat(time), flat(time), flat(9 * size), flat(6 * (size - 1)), flat(99 * size), most=0.1)
        for size, time in ((100, 20), (400, 30))
    }
    assert broken(agele_fig6.election_claims(found)) == []
    one_late = replace(found[400], time=flat(31), messages=flat(1e6), most=1.01)
    assert len(broken(agele_fig6.election_claims(found | {400: one_late}))) == 3
    never = agele_fig6.Medians(placed(), placed(), placed(1, 1, 1), same=2, fewer=0, more=1)
    assert broken(agele_fig6.placement_claims(never)) == []
    assert len(broken(agele_fig6.placement_claims(replace(never, same=1, fewer=1)))) == 1


def test_the_claims_of_ours_beside_the_papers() -> None:
    def beside(links: float, known: float, received: float = 0.9, **figures: float) -> agele_better.Beside:
        return agele_better.Beside(sample(**figures), flat(links), flat(received), flat(known))

    found = {
        agele_better.PUBLISHED: beside(1, 1, 1),
        agele_better.ROOT: beside(0.9, 0.9),
        agele_better.EARLY: beside(0.8, 1),
        agele_better.REMEMBER: beside(0.6, 1, suppressed=0.9),
        agele_better.ALL: beside(0.4, 0.9),
    }
    assert broken(agele_better.claims(found, 500)) == []
    worse = found | {agele_better.EARLY: beside(0.3, 1.01), agele_better.ROOT: beside(1.1, 1)}
    assert broken(agele_better.claims(worse, 500)) == [
        "root: grown anew from the centre, the tree takes less time (known), 500 brokers",
        "root: and fewer link messages",
        "early: and no time (known)",
        "all three: together they need the fewest link messages, and less time in both readings",
    ]


def test_overlays_are_chosen_by_the_eccentricity_of_their_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    near: dict[int, int] = dict(zip(Settings(quick=True).seeds(40, 5), (9, 6, 8, 6, 8), strict=True))

    def ways(setup: AgeleSetup) -> Ways:
        found = ways_of(AgeleSetup(1, brokers=4))
        return replace(found, hops=found.hops * 0 + near[setup.seed])

    monkeypatch.setattr(agele_fig6, "ways_of", ways)
    assert [near[setup.seed] for setup in agele_fig6._overlays(Settings(quick=True))] == [6]
    near.update(dict.fromkeys(list(near)[3:], 7))
    assert [setup.seed for setup in agele_fig6._overlays(Settings(quick=True))] == [list(near)[3]]
