"""The benchmark of deciding: that its stream is what it says, and that it runs, in small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streaming.world.one_link import ranges_at

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def deciding(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A script, not a package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("deciding")


def tiny(deciding: ModuleType) -> list[Any]:
    return [replace(load.smaller(200), items_a_minute=400) for load in deciding.LOADS]


def test_the_goal_is_about_as_many_items_and_ranges_as_it_says(deciding: ModuleType) -> None:
    for load in deciding.LOADS[:2]:
        ranges = load.subscriptions * sum(size / shift for size, shift in load.windows) / len(load.windows)
        assert 9_500 < ranges < 11_500
    woven, scarce = deciding.LOADS[1:]
    assert {load.least * size / shift for load in (woven, scarce) for size, shift in load.windows} == {20}
    assert scarce.items_a_minute * 10 == woven.items_a_minute


def test_the_stream_has_every_range_of_every_item_and_tells_its_end_once(deciding: ModuleType) -> None:
    load = tiny(deciding)[0]
    stream = deciding.Stream(load)
    offered, due, last_ms = set(), [], 0
    for tick in [*stream.minute(), *stream.minute(), *stream.minute()]:
        assert list(tick.due) == sorted(tick.due)
        due += tick.due
        assert set(tick.due) <= offered
        for item in tick.items:
            assert last_ms <= item.at_ms
            last_ms = item.at_ms
            assert item.key == set(item.ranges)
            assert list(item.ranges) == sorted(item.ranges)
            names = {range_.subscription for range_ in item.ranges}
            assert len(names) <= load.most
            for name in names:
                number = int(name[1:])
                size, shift = (round(1000 * each) for each in load.windows[number % len(load.windows)])
                mine = {range_ for range_ in item.ranges if range_.subscription == name}
                assert mine == set(ranges_at(item.at_ms, name, size, shift, stream._issued_ms[number]))
            assert all(range_.end > item.at_ms for range_ in item.ranges)
            offered |= item.key
    assert len(due) == len(set(due))
    ends = stream._issued_ms[0] + 5 * deciding.MINUTE_MS + stream._sizes_ms[0]
    windows = (stream._names[0], stream._sizes_ms[0], stream._shifts_ms[0], stream._issued_ms[0])
    assert list(stream._open(0, ends)) == ranges_at(ends, *windows)
    assert {range_ for range_ in offered if range_.end < 3 * deciding.MINUTE_MS} == set(due)
    again = [item.ranges for tick in deciding.Stream(load).minute() for item in tick.items]
    assert again == [item.ranges for tick in deciding.Stream(load).minute() for item in tick.items]


def test_a_small_run_is_written_between_its_marks_and_nowhere_else(
    deciding: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = deciding.results(tiny(deciding), 3, quick=True) | {"machine": "a machine"}
    assert capsys.readouterr().err.count("s a minute") == 12
    for load in found["loads"].values():
        for row in load["deciders"].values():
            assert 0 < row["deciding_s"] < row["with_taking_s"]
            assert row["aggregated"] <= row["windows"] > 0
            assert row["ranges"] > 0
            assert len(row["by_minute"]) == 3
    page, data = tmp_path / "page.md", tmp_path / "data.json"
    page.write_text("before\n<!-- bench -->\nrates\n<!-- /bench -->\n<!-- deciding -->\nold\n<!-- /deciding -->\nafter\n")
    deciding.write(found, data, page)
    text = page.read_text()
    assert text.startswith(
        "before\n<!-- bench -->\nrates\n<!-- /bench -->\n<!-- deciding -->\nWritten by `make bench-deciding ARGS=--quick`"
    )
    assert text.endswith("<!-- /deciding -->\nafter\n")
    assert "old" not in text
    assert text.count("| `foresight` |") == 3
    assert json.loads(data.read_text()) == found
    deciding.write(found, data, page)
    assert page.read_text() == text


def test_a_goal_that_is_missed_says_so(deciding: ModuleType) -> None:
    row = {"deciding_s": 0.4, "with_taking_s": 1.0, "flat": 1.0}
    rows = {name: dict(row) for name in deciding.DECIDERS}
    found = {"loads": {"mixed": {"deciders": rows}, "woven": {"deciders": {name: {} for name in rows}}}}
    assert all(line.endswith("| met |") for line in deciding._goals(found)[2:])
    for name, cell, value in (("bat", "deciding_s", 1.01), ("foresight", "flat", 1.3), ("adock", "deciding_s", 0.7)):
        kept, rows[name][cell] = rows[name][cell], value
        missed = [line for line in deciding._goals(found) if line.endswith("| missed |")]
        assert len(missed) == 1
        assert ("ADOCK's deciding" if name == "adock" else f"`{name}`") in missed[0]
        rows[name][cell] = kept


def test_flat_is_the_last_third_by_the_first(deciding: ModuleType) -> None:
    costs = (1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0, 2.0, 2.0, 2.0)
    minutes = [deciding.Minute(deciding_s=cost, windows=100) for cost in costs]
    assert deciding.summary(minutes)["flat"] == 2.0


def test_the_page_has_the_marks(deciding: ModuleType) -> None:
    text = (BENCHMARKS.parent / "docs" / "benchmarks.md").read_text()
    assert text.index(deciding.START) < text.index(deciding.END)
