"""The values of an experiment, the files it leaves, its plots and the page of results."""

from __future__ import annotations

import csv
import json
import math
import statistics
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import catalogue, plots
from experiments.harness import (
    Conducted,
    Experiment,
    PaperClaim,
    Plot,
    Result,
    Series,
    Settings,
    Spread,
    Table,
    basis,
    conduct,
    make_folder,
    spread,
    to_dict,
    write_data,
)
from experiments.page import write_page
from tidings.errors import CannotRun

TABLE = Table(["brokers", "paper", "ours"], [["100", "17 %", "18 % (17 % to 20 %)"]])
PLOT = Plot(
    title="Delay",
    x_label="brokers",
    y_label="%",
    x_log=True,
    series=[
        Series("delay", [100, 200, 400], [17, 20, 32], [15, 19, 30], [18, 22, 33]),
        Series("delay", [100, 400], [17, 32], style="paper"),
        Series("nothing merged", [100, 400], [0, 0], style="baseline"),
    ],
)


def result(**changes: Any) -> Result:
    usual: dict[str, Any] = {
        "rows": [{"brokers": 100, "more": 0.18}, {"brokers": 200, "more": 0.21}],
        "claims": [PaperClaim("at most 32 % more time", "32 %", "21 %", True)],
        "table": TABLE,
        "seeds": 30,
        "plots": [PLOT],
        "notes": ["Trees are random."],
    }
    return Result(**{**usual, **changes})


def conducted(settings: Settings | None = None, name: str = "agele-fig5", **changes: Any) -> Conducted:
    experiment = Experiment(name, "Delay by size", "Agele, figure 5", lambda _: result(**changes))
    return conduct(experiment, settings or Settings(), clock=iter([10.0, 12.5]).__next__)


# ---- spread -----------------------------------------------------------------------------------------------------------

FIGURES = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], Spread(7, 7, 7, 1)),
        ([1, 2], Spread(1.5, 1.25, 1.75, 2)),
        ([5, 1, 3, 2, 4], Spread(3, 2, 4, 5)),
        ([1, 2, 3, 4], Spread(2.5, 1.75, 3.25, 4)),
        ([0, 0, 0, 0, 100], Spread(0, 0, 0, 5)),
    ],
)
def test_median_and_quartiles(values: list[float], expected: Spread) -> None:
    assert spread(values) == expected


@given(FIGURES, st.randoms())
def test_a_spread_lies_within_its_values_in_order_whatever_theirs(values: list[float], chance: Any) -> None:
    found = spread(values)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)
    shuffled = list(values)
    chance.shuffle(shuffled)
    assert spread(shuffled) == found


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=50))
def test_the_quartiles_are_those_of_the_standard_library(values: list[float]) -> None:
    found = spread(values)
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    assert [found.low, found.median, found.high] == pytest.approx(quartiles, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("values", [[], [1, math.nan], [math.inf]])
def test_no_spread_of_nothing_nor_of_what_is_no_figure(values: list[float]) -> None:
    with pytest.raises(ValueError, match="a spread needs figures"):
        spread(values)


def test_a_spread_is_printed_with_its_range_unless_that_says_nothing() -> None:
    assert Spread(0.7123, 0.698, 0.721, 30).format(".1%") == "71.2% (69.8% to 72.1%)"
    assert Spread(4.0, 4.01, 3.99, 30).format(".1f") == "4.0"
    assert Spread(-1.5, -2.0, 3.0, 30).format() == "-1.5 (-2 to 3)"


@pytest.mark.parametrize(
    ("seeds", "said"), [(0, "no chance involved"), (1, "1 seed"), (1000, "1,000 seeds; median (interquartile range)")]
)
def test_what_the_figures_rest_on(seeds: int, said: str) -> None:
    assert basis(seeds) == said


# ---- settings ---------------------------------------------------------------------------------------------------------


def test_two_seeds_share_no_sample_and_quick_takes_the_first_of_the_full() -> None:
    full, other, quick = (s.seeds(30, 3) for s in (Settings(), Settings(seed=2), Settings(quick=True)))
    assert (len(full), len(quick)) == (30, 3)
    assert not set(full) & set(other)
    assert list(quick) == list(full)[:3]


@pytest.mark.parametrize("count", [0, 10_001])
def test_too_few_or_so_many_seeds_that_they_would_overlap(count: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 10000 seeds"):
        Settings().seeds(count, 1)


def test_progress_counts_what_is_done() -> None:
    class Told(list[Any]):
        def start(self, total: int) -> None:
            self.append(total)

        def advance(self) -> None:
            self.append("done")

    told = Told()
    for step in Settings(progress=told).track("ab"):
        told.append(step)
    assert told == [2, "a", "done", "b", "done"]


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        (Settings(), "tidings experiment agele-fig5"),
        (Settings(quick=True, seed=3), "tidings experiment agele-fig5 --quick --seed 3"),
    ],
)
def test_the_command_that_gives_the_same_again(settings: Settings, command: str) -> None:
    assert conducted(settings).command == command


# ---- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "at least one row"),
        ([{"a": 1}, {"b": 1}], r"the columns \['a'\], another \['b'\]"),
        ([{"a": 1}, {"a": 1, "b": 1}], r"another \['a', 'b'\]"),
        ([{"a": [1]}], "a = .* is a list"),
    ],
)
def test_rows_are_flat_and_alike(rows: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        result(rows=rows)


def test_a_table_has_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match=r"but a row \['1'\]"):
        Table(["a", "b"], [["1", "2"], ["1"]])


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"x": [1], "y": [1, 2]}, "different lengths"),
        ({"x": [1], "y": [1], "low": [0, 0], "high": [2]}, "different lengths"),
        ({"x": [1], "y": [1], "low": [0]}, "one side of a spread only"),
    ],
)
def test_a_series_fits_together(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Series("delay", **parts)


def test_a_series_of_spreads_has_the_medians_and_a_band() -> None:
    made = Series.of("delay", [1, 2], [Spread(5, 4, 6, 9), Spread(7, 6, 9, 9)])
    assert made == Series("delay", [1, 2], [5, 7], [4, 6], [6, 9], "ours")


@pytest.mark.parametrize("name", ["", "all", "list", "Agele", "a/b", "a_b", "-a", "a-"])
def test_a_name_is_a_word_of_the_command_line_and_a_file_name(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        Experiment(name, "", "", lambda _: result())


# ---- the catalogue ----------------------------------------------------------------------------------------------------


def register(monkeypatch: pytest.MonkeyPatch, *modules: str, holds: str | None = None) -> None:
    """Modules that were never on disk."""
    for name in modules:
        module = ModuleType(name)
        module.EXPERIMENT = Experiment(holds or name.replace("_", "-"), "Delay", "Agele", lambda _: result())  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"experiments.{name}", module)
    monkeypatch.setattr(catalogue, "MODULES", modules)


def test_every_experiment_there_is_can_be_imported() -> None:
    assert list(catalogue.experiments()) == catalogue.names()


def test_experiments_are_found_in_the_order_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "zulu_fig9", "agele_fig3")
    assert list(catalogue.experiments()) == catalogue.names() == ["zulu-fig9", "agele-fig3"]
    assert catalogue.find("agele-fig3").name == "agele-fig3"


def test_to_find_one_no_other_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "agele_fig3")
    monkeypatch.setattr(catalogue, "MODULES", ("not_there", "agele_fig3"))
    assert catalogue.find("agele-fig3").title == "Delay"


def test_an_unknown_name_is_told_the_close_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "agele_fig3", "agele_fig4", "das_load")
    with pytest.raises(catalogue.UnknownExperiment, match="did you mean agele-fig3 or agele-fig4") as refused:
        catalogue.find("agele3")
    assert (refused.value.exit_code, "das-load" in str(refused.value)) == (2, False)
    with pytest.raises(catalogue.UnknownExperiment, match="`tidings experiment list`"):
        catalogue.find("zzz")


def test_a_module_holds_the_experiment_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "agele_fig3", holds="agele-fig4")
    with pytest.raises(ValueError, match=r"experiments/agele_fig3\.py should hold"):
        catalogue.find("agele-fig3")


# ---- files ------------------------------------------------------------------------------------------------------------


def test_as_json() -> None:
    claims = [PaperClaim("a", "1", "2", True), PaperClaim("b", "3", "4", False)]
    done = conducted(Settings(quick=True), claims=claims, rows=[{"x": math.inf, "y": math.nan, "z": None}])
    assert not done.holds
    assert to_dict(done) == {
        "name": "agele-fig5",
        "title": "Delay by size",
        "paper": "Agele, figure 5",
        "command": "tidings experiment agele-fig5 --quick",
        "quick": True,
        "seeds": 30,
        "seconds": 2.5,
        "rows": [{"x": None, "y": None, "z": None}],
        "claims": [
            {"claim": "a", "paper": "1", "ours": "2", "holds": True},
            {"claim": "b", "paper": "3", "ours": "4", "holds": False},
        ],
        "table": {"columns": ["brokers", "paper", "ours"], "rows": [["100", "17 %", "18 % (17 % to 20 %)"]]},
        "notes": ["Trees are random."],
    }


def test_the_data_files_say_the_same_as_the_result(tmp_path: Path) -> None:
    done = conducted(rows=[{"what": 'a "b", c', "n": 1}, {"n": None, "what": "é\nf"}])
    table, whole = write_data(done, tmp_path)
    assert (table.name, whole.name) == ("agele-fig5.csv", "agele-fig5.json")
    assert json.loads(whole.read_text(encoding="utf-8")) == to_dict(done)
    with table.open(encoding="utf-8", newline="") as opened:
        assert list(csv.DictReader(opened)) == [{"what": 'a "b", c', "n": "1"}, {"what": "é\nf", "n": ""}]
    assert b"\r" not in table.read_bytes()


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CannotRun, match="file cannot be written: File exists"):
        make_folder(tmp_path / "file")


# ---- plots ------------------------------------------------------------------------------------------------------------


def drawn(folder: Path, *wanted: Plot) -> str:
    pytest.importorskip("matplotlib")
    folder.mkdir(exist_ok=True)
    vector, pixels = plots.draw(wanted, folder, "p")
    assert pixels.read_bytes().startswith(b"\x89PNG")
    return vector.read_text(encoding="utf-8")


def test_the_same_data_is_the_same_picture_whatever_the_users_taste(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    first = drawn(tmp_path / "a", PLOT)
    with matplotlib.rc_context({"xtick.major.size": 9, "svg.hashsalt": "other"}):
        assert drawn(tmp_path / "b", PLOT) == first
        assert matplotlib.rcParams["xtick.major.size"] == 9
    assert "<dc:date>" not in first
    assert drawn(tmp_path / "c", PLOT, PLOT) != first


def axes_of(*wanted: Plot) -> list[Any]:
    pytest.importorskip("matplotlib")
    with plots._look():
        return list(plots._figure(wanted).axes)


def test_ours_the_papers_and_the_baseline_differ_in_more_than_colour() -> None:
    [axes] = axes_of(PLOT)
    ours, papers, baseline = axes.lines
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["delay", "delay, paper", "nothing merged"]
    assert ours.get_color() == papers.get_color() != baseline.get_color()
    assert (ours.get_linestyle(), papers.get_linestyle()) == ("-", "--")
    assert papers.get_markerfacecolor() == "white" != ours.get_markerfacecolor()
    assert len(axes.collections) == 1, "one band, for the one series with a spread"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["100", "200", "400"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")) == ("brokers", "%", "Delay")


def plot(*labels: str, y: float = 1) -> Plot:
    series = [Series(label, [1, 2], [y, y * 1.1]) for label in labels]
    return Plot(title="", x_label="", y_label="", series=series)


def looks(axes: Any) -> dict[str, tuple[str, str]]:
    return {line.get_label(): (line.get_color(), line.get_marker()) for line in axes.lines}


def test_a_label_looks_the_same_in_all_axes_and_no_two_in_one_look_alike() -> None:
    first, second = (looks(axes) for axes in axes_of(plot("a", "b"), plot("c", "b", *"defghijk")))
    assert first["b"] == second["b"]
    assert first["a"] == second["c"], "new axes start with the best colours"
    assert len(set(second.values())) == len(second) == 10


def test_zero_is_shown_unless_it_would_squeeze_the_rest() -> None:
    low, high, below = (axes.get_ylim()[0] for axes in axes_of(plot("a", y=0), plot("a", y=90), plot("a", y=-1)))
    assert low == 0
    assert high > 80
    assert below < -1


def test_long_labels_stand_one_below_the_other() -> None:
    short, long = axes_of(plot("a", "b"), plot("a", "profile forwarding with covering, " * 3))
    columns = [axes.get_legend()._ncols for axes in (short, long)]
    assert columns == [2, 1]
    assert max(len(line) for text in long.get_legend().get_texts() for line in text.get_text().splitlines()) <= 50


def test_no_plots_no_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert plots.draw([], tmp_path, "p") == []
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CannotRun, match=r"pip install 'tidings\[experiments\]'.*--no-plot"):
        plots.check()


# ---- the page ---------------------------------------------------------------------------------------------------------


def paged(tmp_path: Path, *results: Conducted, **more: Any) -> str:
    (tmp_path / "out").mkdir(exist_ok=True)
    page = tmp_path / "docs" / "results.md"
    write_page([to_dict(each) for each in results], tmp_path / "out", page, **more)
    return page.read_text(encoding="utf-8")


def test_the_page_shows_command_seeds_figures_claims_and_notes(tmp_path: Path) -> None:
    claims = [PaperClaim("a | b", "1", "2", True), PaperClaim("c\nd", "3", "4", False)]
    page = paged(tmp_path, conducted(claims=claims), conducted(name="agele-fig6", claims=[], notes=[]))
    assert page.startswith("# Results\n\nWritten by `tidings experiment all`: ")
    for line in (
        "| [agele-fig5](#agele-fig5) | Agele, figure 5 | 1 of 2 |",
        '<a id="agele-fig5"></a>',
        "## Delay by size",
        "Agele, figure 5. `tidings experiment agele-fig5`; 30 seeds; median (interquartile range).",
        "| brokers | paper | ours |\n|---|---|---|\n| 100 | 17 % | 18 % (17 % to 20 %) |",
        "| claim | paper | ours | holds |\n|---|---|---|---|\n| a \\| b | 1 | 2 | yes |\n| c d | 3 | 4 | **no** |",
        "- Trees are random.",
    ):
        assert f"\n{line}\n" in page
    assert page.count("| claim |") == 1
    assert page.index("agele-fig5`") < page.index("agele-fig6`")
    assert "quick" not in page
    assert page.endswith("|\n")


def test_a_quick_page_says_so(tmp_path: Path) -> None:
    page = paged(tmp_path, conducted(Settings(quick=True)), command="tidings experiment all --quick")
    assert "Written by `tidings experiment all --quick`" in page
    assert "This was a quick run" in page


def test_the_page_changes_with_the_results_only(tmp_path: Path) -> None:
    experiment = conducted().experiment
    slow = conduct(experiment, Settings(), clock=iter([0.0, 99.0]).__next__)
    assert paged(tmp_path, slow) == paged(tmp_path, conducted())


def test_the_pictures_are_copied_beside_the_page(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "agele-fig5.svg").write_text("<svg/>")
    page = paged(tmp_path, conducted(), conducted(name="agele-fig6"))
    assert "\n![Delay by size](results/agele-fig5.svg)\n" in page
    assert "agele-fig6.svg" not in page, "it has no plot"
    assert (tmp_path / "docs" / "results" / "agele-fig5.svg").read_text() == "<svg/>"


def test_pictures_that_are_there_already_stay(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    (folder / "agele-fig5.svg").write_text("<svg/>")
    write_page([to_dict(conducted())], folder, tmp_path / "docs" / "results.md")
    assert (folder / "agele-fig5.svg").read_text() == "<svg/>"


def test_without_a_folder_there_are_no_pictures(tmp_path: Path) -> None:
    write_page([to_dict(conducted())], None, tmp_path / "results.md")
    assert "![" not in (tmp_path / "results.md").read_text()
