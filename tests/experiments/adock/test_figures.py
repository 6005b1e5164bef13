"""The figures of the ADOCK paper: what makes a claim hold, and a whole experiment in small."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from experiments import catalogue
from experiments.adock import data as adock_data
from experiments.adock import fig6 as adock_fig6
from experiments.adock import mixed as adock_mixed
from experiments.adock import sweep as adock_sweep
from experiments.adock import table1 as adock_table1
from experiments.adock.mixed import RangesCompared
from experiments.adock.static import STATIC
from experiments.adock.sweep import (
    ADOCK,
    AGGREGATE,
    ALL,
    BAT,
    FORWARD,
    LOADS,
    OURS,
    STOCK,
    STOCK_BY_MINUTE,
    TRAFFIC,
    WAD,
    AdockPoint,
    AdockSweep,
    At,
)
from experiments.harness import Cell, PaperClaim, Settings, conduct

FIGURES = ("adock_table1", "adock_fig6", "adock_fig7", "adock_fig8", "adock_fig9", "adock_readings", "adock_mixed")


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the sweep of another test nor data that is not the same on every machine."""
    monkeypatch.setattr(adock_fig6, "_done", {})
    monkeypatch.setenv(adock_data.FOLDER, str(Path(__file__).parent))


# ---- points and rows --------------------------------------------------------------------------------------------------


def test_a_run_is_as_long_as_the_papers_unless_too_much_would_come() -> None:
    assert AdockPoint(STOCK_BY_MINUTE, 465).setup(1, quick=False).seconds == 1000
    assert AdockPoint(STOCK, 465).setup(1, quick=False).publications == pytest.approx(100_000, rel=0.01)
    assert AdockPoint(STOCK, 2790).setup(1, quick=True).seconds == 60
    assert AdockPoint(STOCK_BY_MINUTE, 465).setup(1, quick=False).rate == 7.75


def made(points: Sequence[At], figures: Callable[..., Mapping[str, float]], seeds: int = 2) -> AdockSweep:
    """A sweep with figures that a function makes up."""
    rows: list[dict[str, Cell]] = [
        {**point, "seconds": 100, "seed": seed, "decider": name, **figures(name, **point)}
        for point in points
        for seed in range(seeds)
        for name in ALL
    ]
    return AdockSweep(rows, seeds)


def test_a_sweep_finds_its_figures() -> None:
    points = [AdockPoint(STOCK, rate).at for rate in (100, 200)]
    found = made(points, lambda name, rate, **_: like_the_paper(name, **points[0]) | {"messages": rate * (1 + ALL.index(name))})
    assert found.points(rate=200) == [points[1]]
    assert found.of("messages", ADOCK, points[1]).median == 400
    assert found.more(WAD, ADOCK, points[0]).median == 0.5
    plot = found.plot("Messages", ("rate", "rate"), ("messages", "messages"), (STATIC, ADOCK), load=STOCK.name)
    assert [(line.label, line.style, list(line.x), list(line.y)) for line in plot.series] == [
        (STATIC, "baseline", [100, 200], [100, 200]),
        (ADOCK, "ours", [100, 200], [200, 400]),
    ]
    with pytest.raises(ValueError, match="not one for each seed"):
        found.values("messages", ADOCK, AdockPoint(STOCK, 300).at)


def test_a_sweep_has_a_row_for_each_point_seed_and_decider() -> None:
    points = [AdockPoint(load, 14, 9) for load in (TRAFFIC, STOCK_BY_MINUTE)]
    settings = Settings(quick=True)
    one, again = (adock_sweep.sweep(settings, points, settings.seeds(full=2, quick=2), record=True) for _ in range(2))
    assert len(one.rows) == 2 * 2 * len(ALL)
    exact = ("load", "seed", "decider", "messages", "at_once", "forwarded", "aggregated", "optimum")
    assert [[row[name] for name in exact] for row in one.rows] == [[row[name] for name in exact] for row in again.rows]
    for point in one.points():
        for name in ALL:
            assert one.over_optimum(name, point).low >= 0
        assert one.over_optimum(STATIC, point).high == 0


# ---- claims: in a world like the paper's all hold ---------------------------------------------------------------------


def like_the_paper(name: str, load: str, ratio: float | None, rate: int, subscriptions: int, **_: Any) -> dict[str, float]:
    ratio = ratio or 1  # mixed windows have none
    static = 10_000 * (1 + subscriptions / 1000) * (1.03 if ratio > 1 else 1)
    gap = (0.05 if load == TRAFFIC.name else 0.2) * (1 - rate / 6000) * (1 - subscriptions / 2000) * (1 + ratio / 30)
    adock = 1.02 * static
    messages = {
        STATIC: static,
        ADOCK: adock,
        WAD: adock * (1 + gap),
        BAT: 1.2 * adock * (1 + gap),
        OURS: 1.005 * static,
        FORWARD: 2 * static,
        AGGREGATE: 2 * static,
    }
    computing = {ADOCK: 1 + 0.05 * ratio, OURS: 1.2}
    return {
        "messages": messages[name],
        "messages_a_second": messages[name] / 100,
        "at_once": 5000,
        "optimum": static,
        "computing_s": computing.get(name, 1),
        "computing_ms_a_second": 10 * computing.get(name, 1),
        "deciding_s": 0.1 * computing.get(name, 1),
        "with_matching_s": 10 + computing.get(name, 1),
    }


def run_with(monkeypatch: pytest.MonkeyPatch, module: str, figures: Callable[..., Any], *, quick: bool) -> Sequence[PaperClaim]:
    """Run an experiment whose simulations are replaced by made-up figures."""

    def sweep(_settings: Settings, points: Sequence[AdockPoint], seeds: Sequence[int], *, record: bool = False) -> AdockSweep:
        assert len(seeds) > 0
        assert record == (module == "adock_table1")
        return made([point.at for point in points], figures)

    found = import_module("experiments." + module.replace("_", ".", 1))
    monkeypatch.setattr(adock_mixed, "compared", lambda *_: RangesCompared(5, dict.fromkeys(ALL, 0)))
    monkeypatch.setattr(adock_fig6 if module == "adock_fig7" else found, "sweep", sweep)
    result = found.run(Settings(quick=quick))
    assert result.plots
    assert result.notes
    assert {row["decider"] for row in result.rows} == set(ALL)
    claims: Sequence[PaperClaim] = result.claims
    return claims


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("module", FIGURES)
def test_all_claims_hold_of_figures_like_the_papers(monkeypatch: pytest.MonkeyPatch, module: str, quick: bool) -> None:
    claims = run_with(monkeypatch, module, like_the_paper, quick=quick)
    assert [claim.claim for claim in claims if not claim.holds] == []


Change = Callable[..., float]
Case = tuple[str, str, str, Change, str]


def times(factor: float, **where: Cell) -> Change:
    """Another figure, at some points only."""
    return lambda usual, **point: usual * (factor if all(point[name] == cell for name, cell in where.items()) else 1)


# What is changed, for which decider, and a part of the claim that must fall: each claim at least once.
CASES: list[Case] = [
    *(("adock_table1", "messages", ADOCK, times(1.03, load=load.name), f"{load.name}: ADOCK") for load in LOADS),
    *(("adock_table1", "messages", OURS, times(1.01, load=load.name), f"{load.name}: {OURS}") for load in LOADS),
    ("adock_fig6", "messages", ADOCK, times(1.1, rate=1080), "ADOCK sends the least"),
    ("adock_fig6", "messages", BAT, times(0.8, rate=1080), "BAT sends the most"),
    ("adock_fig6", "messages", WAD, times(1.4), "at most 50 % more"),
    ("adock_fig6", "messages", WAD, times(1.05, load=TRAFFIC.name), "traffic: WAD"),
    ("adock_fig6", "messages", WAD, times(1.2, load=TRAFFIC.name), "more on stock"),
    ("adock_fig6", "messages", WAD, times(1.2, rate=2790, load=STOCK.name), "stock: WAD loses less"),
    ("adock_fig6", "messages", WAD, times(1.2, rate=2790, load=STOCK_BY_MINUTE.name), "minute: WAD loses less"),
    ("adock_fig6", "messages", ADOCK, times(1.02, ratio=2), "hardly more"),
    ("adock_fig6", "messages", WAD, times(0.9, ratio=2), "widen the gap"),
    ("adock_fig6", "messages", OURS, times(1.01, rate=54), "at most 1 %"),
    ("adock_fig7", "deciding_s", ADOCK, times(0.5), "more slowly"),
    ("adock_fig7", "computing_s", ADOCK, times(4), "4 times"),
    ("adock_fig7", "computing_s", ADOCK, times(1.4), "1.5 times"),
    ("adock_fig7", "computing_s", ADOCK, times(1.1, ratio=1), "more with sliding"),
    ("adock_fig7", "computing_s", BAT, times(2, ratio=2), "hardly do"),
    ("adock_fig8", "messages", BAT, times(1.1, subscriptions=9), "more messages"),
    ("adock_fig8", "messages", WAD, times(1.1), "at most 29 %"),
    *(("adock_fig8", "messages", WAD, times(1.1, load=load.name, subscriptions=360), f"{load.name}: what WAD") for load in LOADS),
    ("adock_fig8", "computing_s", ADOCK, times(2), "2.1 times"),
    ("adock_fig8", "computing_s", ADOCK, times(1.45), "1.5 times"),
    ("adock_fig8", "messages", OURS, times(1.01), "at most 1 %"),
    *(("adock_fig9", "messages", WAD, times(1.1, load=load.name, ratio=1.5), f"{load.name}: WAD") for load in LOADS),
    *(("adock_fig9", "deciding_s", WAD, times(2, load=load.name, ratio=6), f"{load.name}: ADOCK") for load in LOADS),
    ("adock_fig9", "computing_s", ADOCK, times(1.2), "1.5 times"),
    ("adock_fig9", "messages", OURS, times(1.01), "at most 1 %"),
    ("adock_readings", "messages", ADOCK, times(1.03, crosswise=True), "at most 4.29 %"),
    ("adock_readings", "messages", WAD, times(1.5, scattered=True), "at most 50 %"),
    ("adock_readings", "messages", BAT, times(0.8, scattered=True), "BAT sends the most"),
    ("adock_readings", "messages", OURS, times(1.01, scattered=True), "at most 1 % above"),
    ("adock_readings", "messages", OURS, times(1.02, plain=False), "never above ADOCK"),
    ("adock_mixed", "messages", ADOCK, times(1.03, subscriptions=180), "at most 4.29 %"),
    ("adock_mixed", "messages", OURS, times(1.01, load=TRAFFIC.name), "at most 1 %"),
    ("adock_mixed", "messages", WAD, times(1.4, subscriptions=90), "at most 50 %"),
    ("adock_mixed", "messages", BAT, times(0.8, load=STOCK_BY_MINUTE.name), "BAT sends the most"),
    ("adock_mixed", "computing_s", ADOCK, times(1.5, subscriptions=360), "1.5 times"),
]
OF_ITS_OWN = "every range comes to what was published in it"
"""A claim about results, not about figures of the sweep: `test_adock_mixed` makes it fall."""


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}: {case[4]}" for case in CASES])
def test_the_claim_falls_that_speaks_of_what_changed(monkeypatch: pytest.MonkeyPatch, case: Case) -> None:
    module, measure, decider, changed, part = case

    def otherwise(name: str, **point: Any) -> dict[str, float]:
        usual = like_the_paper(name, **point)
        return usual | ({measure: changed(usual=usual[measure], **point)} if name == decider else {})

    fallen = [claim.claim for claim in run_with(monkeypatch, module, otherwise, quick=False) if not claim.holds]
    assert any(part in claim for claim in fallen)


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("adock_fig6", "loses less"),
        ("adock_fig6", "more on stock"),
        ("adock_fig6", "widen the gap"),
        ("adock_fig8", "what WAD loses shrinks"),
        ("adock_fig9", "WAD loses more"),
    ],
)
def test_a_difference_too_small_to_show_is_none(monkeypatch: pytest.MonkeyPatch, module: str, part: str) -> None:
    def hardly(name: str, **point: Any) -> dict[str, float]:
        usual = like_the_paper(ADOCK if name == WAD else name, **point)
        over = like_the_paper(WAD, **point)["messages"] / usual["messages"] - 1
        return usual | ({"messages": usual["messages"] * (1 + over / 10_000)} if name == WAD else {})

    claims = [claim for claim in run_with(monkeypatch, module, hardly, quick=False) if part in claim.claim]
    assert claims
    assert not any(claim.holds for claim in claims)


@pytest.mark.parametrize("module", FIGURES)
def test_every_claim_can_fall(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    claims = [claim.claim for claim in run_with(monkeypatch, module, like_the_paper, quick=False)]
    parts = [case[4] for case in CASES if case[0] == module]
    assert [claim for claim in claims if not any(part in claim for part in [*parts, OF_ITS_OWN])] == []


# ---- whole experiments ------------------------------------------------------------------------------------------------


def test_they_are_in_the_catalogue() -> None:
    ours = [name for name in catalogue.names() if name.startswith("adock-")]
    assert ours == [module.replace("_", "-") for module in FIGURES]
    assert [catalogue.find(name).name for name in ours] == ours


def test_figures_6_and_7_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def sweep(_settings: Settings, points: Sequence[AdockPoint], seeds: Sequence[int]) -> AdockSweep:
        calls.append(len(seeds))
        return made([point.at for point in points], like_the_paper)

    monkeypatch.setattr(adock_fig6, "sweep", sweep)
    for name in ("adock-fig6", "adock-fig7", "adock-fig6"):
        catalogue.find(name).run(Settings(quick=True))
    assert calls == [1]
    catalogue.find("adock-fig7").run(Settings(quick=True, seed=2))
    assert calls == [1, 1]


def test_a_small_run_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adock_table1, "SOME", (90,))
    monkeypatch.setattr(adock_sweep, "SOME", 600)
    monkeypatch.setattr(adock_sweep, "SHORTEST_S", 1)
    conducted = conduct(adock_table1.EXPERIMENT, Settings(quick=True))
    assert [list(row)[:2] for row in conducted.result.table.rows] == [[load.name, "90"] for load in LOADS]
    assert any("made up" in note for note in conducted.result.notes)
