"""The experiments on DAS: the set-up, the measures by hand on small overlays, and what makes a claim hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from itertools import count, pairwise, product
from random import Random
from typing import Any

import networkx as nx
import pytest

from experiments import catalogue
from experiments.das import adaptive as das_adaptive
from experiments.das import profiles as das_profiles
from experiments.das import setup as das
from experiments.das import strategies
from experiments.das.adaptive import ALL, PARTLY, UNWANTED, WIDE, AdaptiveRun, Traffic, simulate
from experiments.das.setup import EVENT, LINE, PROFILE, RENDEZVOUS, STRATEGIES, TREE, DasSetup, DasWorkload
from experiments.das.strategies import DasPoint, DasSweep
from experiments.harness import Cell, PaperClaim, Settings, conduct
from streaming.model.outputs import FilterDecided
from tidings.message import Message
from tidings.topic import Filtering
from topology.profile import EVERYTHING

SMALL = DasSetup(parents=(1, 2), profiles=6)
"""b1 - b2 - b3, two profiles each; b2 is the rendezvous."""
TIMES = ("efficiency", "saturation")


# ---- the set-up -------------------------------------------------------------------------------------------------------


def test_exactly_the_share_matches_and_brokers_take_turns() -> None:
    published = das.publications(SMALL, DasWorkload(1, 30, 0.4))
    wanted = [message for _, message in published if message.fields[das.ATTRIBUTE] in range(100_000, 100_006)]
    assert len(wanted) == 12
    assert [broker for broker, _ in published[:4]] == ["b1", "b2", "b3", "b1"]


def test_the_same_seed_publishes_the_same_and_another_does_not() -> None:
    one, again, other = (das.publications(SMALL, DasWorkload(seed, 30, 0.5)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def homes(setup: DasSetup, workload: DasWorkload) -> list[tuple[str, str | None]]:
    """Where each event is published, and the broker that wants it."""
    found = []
    for broker, message in das.publications(setup, workload):
        value = message.fields[das.ATTRIBUTE]
        assert isinstance(value, int)
        number = value - 100_000
        found.append((broker, setup.home(number)[0] if number < setup.values else None))
    return found


def test_covering_does_not_change_where_events_are_wanted() -> None:
    workload = DasWorkload(3, 40, 0.6)
    assert homes(DasSetup(profiles=80), workload) == homes(DasSetup(profiles=80, covering=5), workload)


@pytest.mark.parametrize(("locality", "near"), [(0.0, 0), (1.0, 40)])
def test_locality_is_the_share_that_is_wanted_where_it_is_published(locality: float, near: int) -> None:
    assert sum(here == home for here, home in homes(DasSetup(), DasWorkload(3, 40, 1, locality))) == near


def test_values_are_dealt_to_brokers_and_types_alike() -> None:
    setup = DasSetup(TREE, profiles=180, rendezvous=(1, 2))
    dealt = [setup.home(value) for value in range(setup.values)]
    assert {dealt.count(at) for at in product(setup.brokers, setup.types)} == {10}


@pytest.mark.parametrize("wrong", [{"profiles": 81, "covering": 2}, {"profiles": 3}, {"profiles": 4, "rendezvous": (1, 2)}])
def test_a_setup_that_cannot_be_dealt_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="every broker needs a value"):
        DasSetup(**wrong)


# ---- the measures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filtering", "profiles", "entries", "fullest"),
    [
        (EVENT, 6, 6, 2),
        # Every broker holds all six. The four of others are one list at the ends, two lists of two in the middle.
        (PROFILE, 18, 6 + 1 + 2 + 1, 6),
        # Beside its own, only the rendezvous holds what the ends want.
        (RENDEZVOUS, 10, 6 + 2, 6),
    ],
)
def test_what_brokers_hold(filtering: Filtering, profiles: int, entries: int, fullest: int) -> None:
    assert das.held(SMALL, filtering) == das.Held(profiles, entries, fullest)


def test_covered_profiles_are_held_once_elsewhere() -> None:
    covered = DasSetup(parents=(1, 2), profiles=12, covering=2)
    assert [das.held(covered, strategy).profiles for strategy in STRATEGIES] == [12, 12 + 12, 12 + 4]


def test_duplication_is_the_number_of_brokers_and_the_way_to_the_rendezvous() -> None:
    setup = DasSetup(TREE, profiles=90, rendezvous=(2,))
    hops = nx.single_source_shortest_path_length(overlay(setup), "b2")
    assert das.held(setup, PROFILE).profiles == 90 * 9
    assert das.held(setup, RENDEZVOUS).profiles == sum(10 * (1 + far) for far in hops.values())


def test_a_profile_that_became_more_general_is_not_counted_as_values() -> None:
    with pytest.raises(ValueError, match="no list of values"):
        das._equalities(EVERYTHING)


def overlay(setup: DasSetup) -> nx.Graph[str]:
    return nx.Graph([(f"b{parent}", f"b{number}") for number, parent in enumerate(setup.parents, 2)])


def crossings(setup: DasSetup, filtering: Filtering, workload: DasWorkload) -> int:
    """How many links carry each event, by the shape of the overlay alone."""
    graph, total = overlay(setup), 0
    for (broker, message), (_, home) in zip(das.publications(setup, workload), homes(setup, workload), strict=True):
        goals = {home} if home else set()
        if filtering is RENDEZVOUS:
            goals.add(f"b{setup.rendezvous[setup.types.index(message.topic)]}")
        if filtering is EVENT:
            goals = set(setup.brokers)
        ways = [nx.shortest_path(graph, broker, goal) for goal in goals]
        total += len({frozenset(hop) for way in ways for hop in pairwise(way)})
    return total


@pytest.mark.parametrize(
    "setup",
    [
        DasSetup(LINE, profiles=16),
        DasSetup(TREE[:4], profiles=20, covering=2),
        DasSetup(TREE, profiles=54, rendezvous=(1, 2, 7)),
    ],
)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_events_cross_the_links_that_the_strategy_says(setup: DasSetup, strategy: Filtering) -> None:
    workload = DasWorkload(5, 40, 0.6)
    measured = das.measure(setup, strategy, workload)
    assert measured.link_messages == crossings(setup, strategy, workload) / 40
    assert measured.notifications == pytest.approx(0.6 * setup.covering)
    assert 120 < measured.load_bytes / measured.link_messages < 160
    assert measured.saturation > measured.efficiency > 0


def test_one_event_by_hand() -> None:
    published = Message("type1", "sensor", {das.ATTRIBUTE: 100_002}, id="m1")  # value 2 is wanted at b3
    crossed = {}
    for strategy, at in product(STRATEGIES, ("b1", "b3")):
        simulator = das.TimedSimulator(das.plan_of(SMALL, strategy), lambda *_: 1, sizes=True)
        simulator.publish(10, at, published)
        simulator.run(until_ms=100)
        crossed[strategy, at] = sorted("-".join(link) for link in simulator.crossed)
        assert [broker for broker, _ in simulator.told] == ["b3"]
    assert crossed == {
        (EVENT, "b1"): ["b1-b2", "b2-b3"],
        (EVENT, "b3"): ["b2-b1", "b3-b2"],
        (PROFILE, "b1"): ["b1-b2", "b2-b3"],
        (PROFILE, "b3"): [],
        (RENDEZVOUS, "b1"): ["b1-b2", "b2-b3"],
        (RENDEZVOUS, "b3"): ["b3-b2"],
    }


def test_only_what_brokers_do_with_events_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr(das, "process_time_ns", lambda: next(ticks))
    simulator = das.TimedSimulator(das.plan_of(SMALL, PROFILE), lambda *_: 1)
    simulator.run()
    assert not simulator.cpu_ns
    simulator.publish(10, "b1", Message("type1", "sensor", {das.ATTRIBUTE: 100_002}, id="m1"))
    simulator.run()
    # Each look at the clock takes 1. A step that sends looks twice more, and the time between those two is not its own.
    assert simulator.cpu_ns == {"b1": 2, "b2": 2, "b3": 1}


def test_a_run_in_turns_comes_to_the_same() -> None:
    workload = DasWorkload(7, 35, 0.5)
    run = das.Run(SMALL, PROFILE, workload)
    for share in (0.1, 0.5, 1):
        run.advance(share)
    in_turns, at_once = asdict(run.measured()), asdict(das.measure(SMALL, PROFILE, workload))
    assert {name: in_turns[name] for name in in_turns if name not in TIMES} == {
        name: at_once[name] for name in at_once if name not in TIMES
    }


# ---- many points ------------------------------------------------------------------------------------------------------


def test_a_sweep_has_a_row_for_each_point_seed_and_strategy() -> None:
    points = [DasPoint({"n": n}, SMALL, n / 2) for n in (1, 2)]
    settings = Settings()
    one, again = (strategies.sweep(settings, points, 9, settings.seeds(full=2, quick=1)) for _ in range(2))
    assert len(one.rows) == 2 * 2 * 3
    exact = [{name: cell for name, cell in row.items() if name not in (*TIMES, "relative")} for row in one.rows]
    assert exact == [{name: row[name] for name in exact[0]} for row in again.rows]
    for strategy in STRATEGIES:
        pairs = zip(one.values("efficiency", strategy, n=1), one.values("efficiency", EVENT, n=1), strict=True)
        assert one.values("relative", strategy, n=1) == [ours / event for ours, event in pairs]
    assert one.median("link_messages", EVENT, n=2) == 2


def made(points: Sequence[Mapping[str, Cell]], figures: Callable[..., Mapping[str, float]]) -> DasSweep:
    """A sweep of two seeds with figures that a function makes up; what it does not say is 1."""
    usual = dict.fromkeys(("link_messages", "load_bytes", "duplication", "entries", "fullest", "efficiency", "saturation"), 1.0)
    rows: list[dict[str, Cell]] = []
    for at, seed in product(points, (1, 2)):
        said = {strategy: {**usual, **figures(strategy, **at)} for strategy in STRATEGIES}
        for strategy, one in said.items():
            relative = one["efficiency"] / said[EVENT]["efficiency"]
            rows.append({**at, "strategy": str(strategy), "seed": seed, **one, "relative": relative})
    return DasSweep(rows, 2)


def test_a_sweep_finds_its_figures() -> None:
    found = made([{"n": 1}, {"n": 4}], lambda strategy, n: {"load_bytes": n * (1 + STRATEGIES.index(strategy))})
    assert found.median("load_bytes", RENDEZVOUS, n=4) == 12
    assert found.ratio("load_bytes", PROFILE, {"n": 4}, {"n": 1}) == 4
    plot = found.plot("Load", ("n", "number"), ("load_bytes", "bytes"))
    assert [(series.label, list(series.x), list(series.y)) for series in plot.series] == [
        ("event", [1, 4], [1, 4]),
        ("profile", [1, 4], [2, 8]),
        ("rendezvous", [1, 4], [3, 12]),
    ]
    table = found.table({"n": "number"}, {"load_bytes": ("bytes", ".0f"), "relative": ("efficiency", ".1f")})
    assert list(table.columns[1:]) == [
        "bytes, event",
        "bytes, profile",
        "bytes, rendezvous",
        "efficiency, profile",
        "efficiency, rendezvous",
    ]
    assert list(table.rows[1]) == ["4", "4", "8", "12", "1.0", "1.0"]
    with pytest.raises(ValueError, match="not one for each seed"):
        found.median("load_bytes", EVENT, n=5)


# ---- claims: in a world like the paper's all hold ---------------------------------------------------------------------


def by_strategy(event: float, profile: float, rendezvous: float) -> dict[Filtering, float]:
    return {EVENT: event, PROFILE: profile, RENDEZVOUS: rendezvous}


def like_matching(strategy: Filtering, p_e: float, **_: Any) -> dict[str, float]:
    return {
        "load_bytes": by_strategy(300, 120 * p_e, 100 + 60 * p_e)[strategy],
        "efficiency": by_strategy(100 - 5 * p_e, 400 / (1 + 1.5 * p_e), 180 / (1 + 0.4 * p_e))[strategy],
    }


def like_brokers(strategy: Filtering, p_p: float, brokers: int) -> dict[str, float]:
    return {
        "duplication": by_strategy(1, brokers, 2.4 - 1.4 / brokers)[strategy],
        "link_messages": brokers - 1,
        "load_bytes": (brokers - 1) * by_strategy(100, 90 * p_p, 10 + 88 * p_p)[strategy],
        "efficiency": by_strategy(100 - 2 * brokers, 100 + (1 - p_p) * 50 * (brokers - 1), 100)[strategy],
        "saturation": 100 * brokers / (1 + by_strategy(0.5, 0.2, 0.4)[strategy] * (brokers - 1)),
    }


def like_covering(strategy: Filtering, fixed: str, share: float, sigma: int) -> dict[str, float]:
    matching = share if fixed == "p^e" else share / sigma
    told = matching * sigma
    slow = by_strategy(1, 0.2 + 0.75 * matching**0.5, 0.5 + 0.4 * matching)[strategy]
    return {
        "duplication": 1 + by_strategy(0, 3, 1)[strategy] / sigma,
        "load_bytes": by_strategy(300, 120 * matching, 100 + 60 * matching)[strategy],
        "efficiency": 100 / (slow + 0.01 * told),
    }


def like_types(strategy: Filtering, p_p: float, types: int) -> dict[str, float]:
    position = 1 + 0.05 * abs(types - 2)
    return {
        "duplication": by_strategy(1, 9, 2.4 * position)[strategy],
        "load_bytes": by_strategy(800, 200 * p_p, 150 * position + 50 * p_p)[strategy],
        "efficiency": by_strategy(100 + types, (600 + types) / (1 + p_p), 200 / (position + (0.2 if types == 1 else 0)))[
            strategy
        ],
    }


def like_locality(strategy: Filtering, p_p: float, locality: float) -> dict[str, float]:
    far = 1 - locality
    return {
        "load_bytes": by_strategy(300, 160 * p_p * far, 100 + 80 * p_p * far)[strategy],
        "efficiency": 100 / by_strategy(1, 0.3 + 0.7 * far, 0.8 + 0.2 * far)[strategy],
    }


def like_profiles(strategy: Filtering, profiles: int) -> dict[str, float]:
    return {
        "efficiency": by_strategy(100, 150, 80)[strategy] / profiles,
        "fullest": by_strategy(0.25, 1, 1)[strategy],
    }


LIKE_THE_PAPER: dict[str, Callable[..., dict[str, float]]] = {
    "das_matching": like_matching,
    "das_brokers": like_brokers,
    "das_covering": like_covering,
    "das_types": like_types,
    "das_locality": like_locality,
    "das_profiles": like_profiles,
}


def run_with(monkeypatch: pytest.MonkeyPatch, module: str, figures: Callable[..., Any], *, quick: bool) -> Sequence[PaperClaim]:
    """Run an experiment whose simulations are replaced by made-up figures."""

    def sweep(_settings: Settings, points: Sequence[DasPoint], events: int, seeds: Sequence[int]) -> DasSweep:
        assert events > 0
        assert len(seeds) > 0
        return made([point.at for point in points], figures)

    monkeypatch.setattr(strategies, "sweep", sweep)
    result = import_module("experiments." + module.replace("_", ".", 1)).run(Settings(quick=quick))
    assert result.plots
    assert result.notes
    assert {str(strategy) for strategy in STRATEGIES} == {row["strategy"] for row in result.rows}
    claims: Sequence[PaperClaim] = result.claims
    return claims


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("module", LIKE_THE_PAPER)
def test_all_claims_hold_of_figures_like_the_papers(monkeypatch: pytest.MonkeyPatch, module: str, quick: bool) -> None:
    claims = run_with(monkeypatch, module, LIKE_THE_PAPER[module], quick=quick)
    assert [claim.claim for claim in claims if not claim.holds] == []


Case = tuple[str, str, Filtering, Callable[..., float], str]
# What is changed, for which strategy, and a part of the claim that must fall: each claim at least once.
CASES: list[Case] = [
    ("das_matching", "load_bytes", RENDEZVOUS, lambda **_: 400, "the highest"),
    ("das_matching", "load_bytes", EVENT, lambda p_e, **_: 300 * (1 + 0.1 * p_e), "does not depend on p^e"),
    ("das_matching", "load_bytes", PROFILE, lambda p_p, **_: 12 * p_p, "does not change the load"),
    ("das_matching", "load_bytes", PROFILE, lambda **_: 50, "σ lowers the load"),
    ("das_matching", "efficiency", PROFILE, lambda **_: 190, "at small p^e"),
    ("das_matching", "efficiency", PROFILE, lambda **_: 400, "loses the most"),
    ("das_matching", "efficiency", RENDEZVOUS, lambda **_: 50, "lies between"),
    ("das_matching", "efficiency", PROFILE, lambda **_: 400, "rises with σ"),
    ("das_brokers", "duplication", PROFILE, lambda brokers, **_: brokers - 0.5, "at every broker"),
    ("das_brokers", "duplication", RENDEZVOUS, lambda brokers, **_: 1 + (brokers - 1) / 5, "below 2.5"),
    ("das_brokers", "link_messages", EVENT, lambda brokers, **_: brokers**1.1 - 1, "grows by the same"),
    ("das_brokers", "load_bytes", PROFILE, lambda brokers, **_: 95 * (brokers - 1), "the reverse"),
    ("das_brokers", "load_bytes", PROFILE, lambda brokers, **_: 50 * (brokers - 1), "very similar"),
    ("das_brokers", "efficiency", PROFILE, lambda **_: 100, "far more efficient"),
    ("das_brokers", "efficiency", EVENT, lambda brokers, **_: 100 + brokers, "event forwarding becomes less"),
    ("das_brokers", "efficiency", RENDEZVOUS, lambda brokers, **_: 100 * brokers, "hardly changes"),
    ("das_brokers", "saturation", PROFILE, lambda brokers, **_: 100 * brokers / (1 + 0.9 * (brokers - 1)), "is best"),
    ("das_brokers", "saturation", PROFILE, lambda brokers, **_: 100 * brokers**2, "decreases with the number"),
    ("das_covering", "duplication", PROFILE, lambda **_: 4, "falls with more coverings"),
    ("das_covering", "duplication", RENDEZVOUS, lambda sigma, **_: 2 - sigma / 100, "come down"),
    ("das_covering", "load_bytes", EVENT, lambda sigma, **_: 300 + sigma, "does not depend on σ"),
    ("das_covering", "load_bytes", PROFILE, lambda **_: 100, "the load falls with σ"),
    ("das_covering", "load_bytes", PROFILE, lambda sigma, **_: 120 - 5 * sigma, "becomes weaker"),
    ("das_covering", "load_bytes", RENDEZVOUS, lambda **_: 150, "a high p^p"),
    ("das_covering", "efficiency", EVENT, lambda sigma, **_: 100 + sigma, "less efficient"),
    ("das_covering", "efficiency", PROFILE, lambda **_: 500, "hardly differ"),
    ("das_covering", "efficiency", PROFILE, lambda **_: 100, "by far"),
    ("das_covering", "efficiency", EVENT, lambda sigma, **_: 100 * sigma, "gains the most"),
    ("das_types", "duplication", PROFILE, lambda types, **_: 9 + types, "whatever the number"),
    ("das_types", "duplication", RENDEZVOUS, lambda types, **_: 3 - types / 10, "rendezvous holds more"),
    ("das_types", "load_bytes", EVENT, lambda types, **_: 800 + 10 * types, "is stable"),
    ("das_types", "load_bytes", RENDEZVOUS, lambda types, **_: 150 + types, "falls first"),
    ("das_types", "load_bytes", PROFILE, lambda **_: 100, "a higher p^p means"),
    ("das_types", "efficiency", PROFILE, lambda types, **_: 100 * types, "about as efficient"),
    ("das_types", "efficiency", EVENT, lambda p_p, **_: 100 / (1 + p_p), "costs profile forwarding"),
    ("das_types", "efficiency", RENDEZVOUS, lambda types, **_: 100 + 20 * types, "then less with outer"),
    ("das_locality", "efficiency", PROFILE, lambda locality, **_: 100 * (1 + 0.9 * locality), "profile forwarding becomes"),
    ("das_locality", "efficiency", RENDEZVOUS, lambda **_: 100, "so does rendezvous"),
    ("das_locality", "efficiency", EVENT, lambda locality, **_: 100 * (1 + 0.2 * locality), "not depend on locality"),
    ("das_locality", "load_bytes", RENDEZVOUS, lambda **_: 100, "falls with locality"),
    ("das_locality", "load_bytes", EVENT, lambda locality, **_: 300 - 30 * locality, "does not (figure 13)"),
    ("das_profiles", "efficiency", EVENT, lambda **_: 100, "falls with the number"),
    ("das_profiles", "efficiency", PROFILE, lambda profiles: 90 / profiles, "most efficient"),
    ("das_profiles", "efficiency", RENDEZVOUS, lambda profiles: 120 / profiles, "least efficient"),
    ("das_profiles", "fullest", RENDEZVOUS, lambda **_: 0.5, "can hold more profiles"),
]


def fallen(monkeypatch: pytest.MonkeyPatch, case: Case) -> list[str]:
    """The claims that do not hold after the change."""
    module, measure, strategy, changed, _ = case

    def otherwise(which: Filtering, **at: Any) -> dict[str, float]:
        return LIKE_THE_PAPER[module](which, **at) | ({measure: changed(**at)} if which is strategy else {})

    return [claim.claim for claim in run_with(monkeypatch, module, otherwise, quick=False) if not claim.holds]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}: {case[4]}" for case in CASES])
def test_the_claim_falls_that_speaks_of_what_changed(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    assert any(case[4] in claim for claim in fallen(monkeypatch, case))


@pytest.mark.parametrize("module", LIKE_THE_PAPER)
def test_every_claim_can_fall(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    claims = [claim.claim for claim in run_with(monkeypatch, module, LIKE_THE_PAPER[module], quick=False)]
    named = [case[4] for case in CASES if case[0] == module]
    assert [sum(part in claim for part in named) for claim in claims] == [1] * len(claims)


# ---- the adaptive choice ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "at", "crossed", "asked"),
    [
        # by event, profile, rendezvous (b2), adaptive
        (WIDE, "b1", (3, 3, 3, 3), (0, 3, 2, 3)),
        (UNWANTED, "b1", (3, 0, 1, 0), (0, 1, 1, 1)),
        (PARTLY, "b2", (3, 2, 2, 2), (0, 3, 3, 3)),
    ],
)
def test_one_event_crosses_and_asks(value: int, at: str, crossed: tuple[int, ...], asked: tuple[int, ...]) -> None:
    outcomes = [simulate(Traffic([value], (at,)), strategy) for strategy in ALL]
    assert tuple(outcome.crossed[-1] for outcome in outcomes) == crossed
    assert tuple(outcome.asked[-1] for outcome in outcomes) == asked
    assert {outcome.told for outcome in outcomes} == {{WIDE: 4, UNWANTED: 0, PARTLY: 3}[value]}


def test_windows_are_counted_one_by_one() -> None:
    outcome = simulate(Traffic([WIDE] * 5, ("b1",), apart_ms=400), EVENT)
    assert outcome.crossed == (9, 15)


def test_adaptive_stops_asking_when_all_is_wanted_and_says_so() -> None:
    traffic = Traffic([WIDE] * 600, ("b1",))
    fixed, adaptive = simulate(traffic, PROFILE), simulate(traffic, Filtering.ADAPTIVE)
    assert adaptive.crossed[-1] == fixed.crossed[-1] == 1800
    assert adaptive.asked[-1] < fixed.asked[-1] == 1800
    assert "event" in {decision.choice for decision in adaptive.decided}


@pytest.mark.parametrize("name", das_adaptive.RANDOM | das_adaptive.REGULAR)
def test_traffic_follows_from_its_seed(name: str) -> None:
    make = (das_adaptive.RANDOM | das_adaptive.REGULAR)[name]
    assert make(Random("1"), 200) == make(Random("1"), 200)
    assert len({str(make(Random(str(seed)), 200)) for seed in range(8)}) > 1


def test_rates_of_traffic() -> None:
    def rates(traffic: Traffic, phases: int) -> list[float]:
        size = len(traffic.values) // phases
        return [traffic.values[at * size : (at + 1) * size].count(WIDE) / size for at in range(phases)]

    assert rates(das_adaptive.abrupt(Random(1), 2000), 5) == pytest.approx(das_adaptive.RATES, abs=0.03)
    assert rates(das_adaptive.gradual(Random(1), 2000), 4) == pytest.approx([0.5225, 0.7475, 0.75, 0.51], abs=0.03)
    assert rates(das_adaptive.alternating(Random(1), 100), 2) == [1, 0.5]
    assert rates(das_adaptive.by_turns(Random(1), 100), 2 * 2) == [1, 0] * 2


def found_of(adaptive: AdaptiveRun, profile: AdaptiveRun) -> dict[tuple[str, int, Filtering], AdaptiveRun]:
    """The same made-up outcomes for every workload, the last seed's replaced by what is to be judged."""
    much = AdaptiveRun(told=7, crossed=(50, 300), asked=(0, 0), decided=())
    usual = AdaptiveRun(told=7, crossed=(50, 100), asked=(50, 100), decided=())
    found = {(name, 1, s): usual if s in (PROFILE, Filtering.ADAPTIVE) else much for name in WORKLOADS for s in ALL}
    said = {EVENT: much, RENDEZVOUS: much, PROFILE: profile, Filtering.ADAPTIVE: adaptive}
    return found | {(name, 2, s): outcome for name in WORKLOADS for s, outcome in said.items()}


WORKLOADS = das_adaptive.RANDOM | das_adaptive.REGULAR


@pytest.mark.parametrize(
    ("crossed", "asked", "told", "holds"),
    [
        (104, 80, 7, [True, True, True, True]),
        (106, 80, 7, [False, False, True, True]),
        (90, 101, 7, [True, True, False, True]),
        (104, 80, 8, [True, True, True, False]),
    ],
)
def test_claims_about_the_adaptive_choice(crossed: int, asked: int, told: int, holds: list[bool]) -> None:
    profile = AdaptiveRun(told=7, crossed=(50, 100), asked=(50, 100), decided=())
    found = found_of(AdaptiveRun(told, (50, crossed), (50, asked), ()), profile)
    assert [claim.holds for claim in das_adaptive.claims(found, (1, 2))] == holds
    assert das_adaptive.excess(found, "abrupt", 2) == pytest.approx(crossed / 100 - 1)
    assert das_adaptive.saved(found, "abrupt", 2) == pytest.approx(1 - asked / 100)


def test_an_example_of_a_decision_is_quoted() -> None:
    profile = AdaptiveRun(told=7, crossed=(100,), asked=(100,), decided=())
    decided = FilterDecided("b1", "reading", 0, 1000, "event", "99 % were wanted", 50, 49, {})
    found = found_of(profile, profile)
    found["abrupt", 1, Filtering.ADAPTIVE] = AdaptiveRun(7, (100,), (100,), (decided,))
    assert das_adaptive._examples(found, 2) == []
    (said,) = das_adaptive._examples(found, 1)
    assert "has 1 decisions (0 to profile, 1 to event)" in said
    assert "b1 at 1000 ms: event, as 99 % were wanted" in said


# ---- whole experiments ------------------------------------------------------------------------------------------------


def test_they_are_in_the_catalogue() -> None:
    ours = [name for name in catalogue.names() if name.startswith("das-")]
    assert ours == [f"das-{name}" for name in ("matching", "brokers", "covering", "types", "locality", "profiles", "adaptive")]
    assert [catalogue.find(name).name for name in ours] == ours


def test_a_quick_run_of_one() -> None:
    conducted = conduct(das_profiles.EXPERIMENT, Settings(quick=True))
    memory = conducted.result.claims[-1]
    assert memory.holds
    assert memory.ours.startswith("4.0 times")
    assert {row["load_bytes"] for row in conducted.result.rows if row["strategy"] == "profile"} != {0}
