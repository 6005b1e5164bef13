"""Mixed windows: that the other way to count is right, and that a result that differs from it shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.adock import data as adock_data
from experiments.adock import links as adock_links
from experiments.adock import mixed as adock_mixed
from experiments.adock import setup as adock
from experiments.adock import sweep as adock_sweep
from experiments.adock.links import RunCost
from experiments.adock.mixed import WINDOWS, RangesCompared, compared, counted_right, published_in
from experiments.adock.sweep import ADOCK, ALL, BAT, LOADS, STOCK_BY_MINUTE, AdockPoint
from experiments.harness import Settings, conduct
from streaming.windows.graph import Range


@pytest.fixture(autouse=True)
def made_up_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on every machine, whatever data there is."""
    monkeypatch.setenv(adock_data.FOLDER, str(Path(__file__).parent))


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adock_sweep, "SOME", 600)
    monkeypatch.setattr(adock_sweep, "SHORTEST_S", 8)
    monkeypatch.setattr(adock_mixed, "CHECKED_S", 40)


def test_there_are_windows_that_tumble_slide_sample_and_do_not_divide() -> None:
    kinds = Counter("tumble" if size == shift else "slide" if size > shift else "sample" for size, shift in WINDOWS)
    assert set(kinds) == {"tumble", "slide", "sample"}
    assert any(size > shift and size % shift for size, shift in WINDOWS)
    world = adock.world(AdockPoint(STOCK_BY_MINUTE, 930, 360, windows=WINDOWS).setup(1, quick=True))
    of_broker = Counter((each.broker, each.size_ms, each.shift_ms) for each in world.subscriptions if each.aggregate)
    assert len(of_broker) == len(world.overlay.subscribing) * len(WINDOWS)


def test_what_was_published_in_a_range_is_the_sum_of_all_that_count_in_it() -> None:
    setup = AdockPoint(STOCK_BY_MINUTE, 930, 45, windows=WINDOWS).setup(1, quick=True)
    world = adock.world(replace(setup, seconds=40))
    figures = np.random.default_rng(1).integers(1, 1000, len(world.rows))
    found: Counter[Range] = Counter()
    for row, now, figure in zip(world.rows, world.times_ms.tolist(), figures.tolist(), strict=True):
        for number, each in enumerate(world.subscriptions):
            if each.aggregate and world.routing.matches[row, number]:
                found.update(dict.fromkeys(each.open_ranges(now), figure))
    assert published_in(world, figures) == found
    assert min(range_.start for range_ in found) < 0


def test_results_are_right_for_every_load_and_decider(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    found = {load.name: compared(load, 1) for load in LOADS}
    assert all(each.ranges > 50 and each.wrong == dict.fromkeys(ALL, 0) for each in found.values())
    claim = counted_right(found)
    assert claim.holds
    assert claim.ours.endswith("for each of 7 ways to decide; wrong: none")


@pytest.mark.parametrize("harm", ["left out", "twice", "made up"])
def test_a_wrong_result_is_counted(monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    small(monkeypatch)
    right = adock_links.simulate

    def wrong(world: adock.World, name: str, **options: object) -> RunCost:
        outcome = right(world, name, **options)
        if name == BAT:
            range_ = min(outcome.results)
            if harm == "left out":
                del outcome.results[range_]
            elif harm == "twice":
                outcome.results[range_] *= 2
            else:
                outcome.results[Range(1, "nobody", 0)] = 1
        return outcome

    monkeypatch.setattr(adock_links, "simulate", wrong)
    found = compared(STOCK_BY_MINUTE, 1)
    assert found.wrong == dict.fromkeys(ALL, 0) | {BAT: 1}
    claim = counted_right({"stock": found})
    assert not claim.holds
    assert "wrong: stock, bat 1" in claim.ours


def test_nothing_compared_is_nothing_shown() -> None:
    assert not counted_right({"stock": RangesCompared(0, {ADOCK: 0})}).holds


def test_a_small_run(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    monkeypatch.setattr(adock_mixed, "SOME_COUNTS", (45,))
    monkeypatch.setattr(adock_mixed, "CHECKED_COUNT", 45)
    conducted = conduct(adock_mixed.EXPERIMENT, Settings(quick=True))
    assert [list(row)[:2] for row in conducted.result.table.rows] == [[load.name, "45"] for load in LOADS]
    assert {row["ratio"] for row in conducted.result.rows} == {None}
    assert conducted.result.claims[-1].holds
    assert any("2 s every 6 s" in note for note in conducted.result.notes)
