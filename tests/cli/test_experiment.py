"""`tidings experiment`, with a tiny experiment in the catalogue's place."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from cli import experiment as command
from experiments import catalogue
from experiments.harness import DEFAULT_SEED, Experiment, PaperClaim, Plot, Result, Series, Settings, Table, spread
from testing.commands import Tidings


def tiny(holds: bool) -> Callable[[Settings], Result]:
    def conduct(settings: Settings) -> Result:
        seeds = settings.seeds(full=5, quick=2)
        found = spread(float(seed % 100) for seed in settings.track(seeds))
        return Result(
            rows=[{"seed": seed, "value": seed % 100} for seed in seeds],
            claims=[
                PaperClaim("it grows [at once]", "> 1", found.format(), True),
                PaperClaim("it ends", "yes", "who knows", holds),
            ],
            table=Table(["what", "paper", "ours [median]"], [["growth", "3", found.format(".1f")]]),
            seeds=len(seeds),
            plots=[Plot(title="Growth", x_label="x", y_label="y", series=[Series("growth", [1, 2], [1, 2])])],
            notes=["Tiny on purpose."],
        )

    return conduct


@pytest.fixture
def experiment(tidings: Tidings, monkeypatch: pytest.MonkeyPatch) -> Tidings:
    """`tidings experiment` where two exist: one holds, one does not."""
    for name, holds in (("tiny_good", True), ("tiny_bad", False)):
        module = ModuleType(name)
        module.EXPERIMENT = Experiment(name.replace("_", "-"), f"About {name[5:]}", "Tiny, figure 1", tiny(holds))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"experiments.{name}", module)
    monkeypatch.setattr(catalogue, "MODULES", ("tiny_good", "tiny_bad"))
    return partial(tidings, "experiment")


def written(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


# ---- list -------------------------------------------------------------------------------------------------------------


def test_the_list_has_name_figure_and_a_line(experiment: Tidings) -> None:
    said = experiment("list")
    assert said.code == 0
    [_, good, bad] = said.out.splitlines()
    assert good.split(maxsplit=1) == ["tiny-good", good.split(maxsplit=1)[1]]
    assert "Tiny, figure 1" in good
    assert "About good" in good
    assert bad.startswith("tiny-bad")


def test_the_list_for_machines(experiment: Tidings, tmp_path: Path) -> None:
    assert json.loads(experiment("list", "--json").out) == [
        {"name": "tiny-good", "paper": "Tiny, figure 1", "title": "About good"},
        {"name": "tiny-bad", "paper": "Tiny, figure 1", "title": "About bad"},
    ]
    assert written(tmp_path) == set()


def test_an_empty_catalogue(experiment: Tidings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalogue, "MODULES", ())
    assert experiment("list").out == "There are no experiments yet.\n"
    assert json.loads(experiment("list", "--json").out) == []
    said = experiment("all")
    assert (said.code, said.err) == (1, "tidings: there are no experiments yet\n")
    assert written(tmp_path) == set()


# ---- one --------------------------------------------------------------------------------------------------------------


def test_figures_side_by_side_then_the_claims_with_a_mark(experiment: Tidings) -> None:
    pytest.importorskip("matplotlib")
    said = experiment("tiny-bad")
    assert said.code == 0, "the result is the result"
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    for line in (
        "About bad Tiny, figure 1",
        "┃ what ┃ paper ┃ ours [median] ┃",
        "│ growth │ 3 │ 2.0 (1.0 to 3.0) │",
        "5 seeds; median (interquartile range)",
        "✓ it grows [at once] > 1 2 (1 to 3)",
        "✗ it ends yes who knows",
        "Note: Tiny on purpose.",
    ):
        assert line in lines
    assert lines.index("5 seeds; median (interquartile range)") < lines.index("✗ it ends yes who knows")


def test_the_files(experiment: Tidings, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    said = experiment("tiny-good")
    assert written(tmp_path) == {f"results/tiny-good.{ending}" for ending in ("csv", "json", "svg", "png")}
    assert "results/tiny-good.svg" in said.err
    assert (tmp_path / "results/tiny-good.csv").read_text().splitlines()[:2] == ["seed,value", "10000,0"]


def test_for_machines_one_object_and_nothing_else(experiment: Tidings, tmp_path: Path) -> None:
    said = experiment("tiny-good", "--json", "--no-plot", "--quick", "--seed", "3", "--out", "elsewhere/deep")
    [line] = said.out.splitlines()
    found = json.loads(line)
    assert found["command"] == "tidings experiment tiny-good --quick --seed 3"
    assert (found["quick"], found["seeds"]) == (True, 2)
    assert [row["seed"] for row in found["rows"]] == [30_000, 30_001]
    assert written(tmp_path) == {"elsewhere/deep/tiny-good.csv", "elsewhere/deep/tiny-good.json"}
    assert json.loads((tmp_path / "elsewhere/deep/tiny-good.json").read_text()) == found


def test_strict_asks_for_every_claim(experiment: Tidings) -> None:
    assert experiment("tiny-good", "--no-plot", "--strict").code == 0
    said = experiment("tiny-bad", "--no-plot", "--strict")
    assert said.code == 1
    assert "✗" in said.out
    assert "tidings:" not in said.err


def test_an_unknown_name_is_one_line_with_the_close_ones(experiment: Tidings, tmp_path: Path) -> None:
    said = experiment("tiny-god")
    assert (said.code, said.out) == (2, "")
    [line] = said.err.splitlines()
    assert line.startswith("tidings: there is no experiment 'tiny-god'; did you mean tiny-good")
    assert written(tmp_path) == set()


# ---- what stands in the way is said before the run -----------------------------------------------------------------------


def never(_: Any) -> Result:
    raise AssertionError("it ran")


@pytest.fixture
def costly(experiment: Tidings) -> Tidings:
    """As ``experiment``, but no experiment may be run."""
    for name in ("tiny_good", "tiny_bad"):
        module: Any = sys.modules[f"experiments.{name}"]
        module.EXPERIMENT = Experiment(name.replace("_", "-"), "", "", never)
    return experiment


@pytest.mark.parametrize("name", ["tiny-good", "all"])
def test_no_matplotlib(costly: Tidings, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = costly(name)
    assert said.code == 1
    [line] = said.err.splitlines()
    assert "pip install 'tidings[experiments]'" in line


def test_no_matplotlib_is_no_matter_without_plots(experiment: Tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert experiment("tiny-good", "--no-plot").code == 0


@pytest.mark.parametrize("options", [["tiny-good", "--out", "taken"], ["all", "--page", "taken/results.md"]])
def test_a_folder_that_cannot_be_made(costly: Tidings, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "taken").touch()
    said = costly(*options, "--no-plot")
    assert (said.code, said.err) == (1, "tidings: taken cannot be written: File exists\n")


def test_a_file_that_cannot_be_written(experiment: Tidings, tmp_path: Path) -> None:
    (tmp_path / "results/tiny-good.csv").mkdir(parents=True)
    said = experiment("tiny-good", "--no-plot")
    assert (said.code, said.err) == (1, "tidings: results/tiny-good.csv cannot be written: Is a directory\n")


def test_only_all_has_a_page(costly: Tidings) -> None:
    said = costly("tiny-good", "--page", "x.md")
    assert said.code == 2
    assert "only `all` writes a page" in said.err


# ---- all --------------------------------------------------------------------------------------------------------------


def test_all_runs_in_order_and_writes_the_page(experiment: Tidings, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    said = experiment("all", "--quick", "--json")
    assert said.code == 0
    assert [json.loads(line)["name"] for line in said.out.splitlines()] == ["tiny-good", "tiny-bad"]
    page = (tmp_path / "docs/results.md").read_text()
    assert "Written by `tidings experiment all --quick`" in page
    assert "![About bad](results/tiny-bad.svg)" in page
    assert {"docs/results/tiny-good.svg", "docs/results/tiny-bad.svg"} <= written(tmp_path)
    assert "tiny-bad, 2 of 2" in said.err


def test_all_is_strict_after_the_page_is_written(experiment: Tidings, tmp_path: Path) -> None:
    assert experiment("all", "--no-plot", "--strict", "--page", "elsewhere.md").code == 1
    assert "| [tiny-bad](#tiny-bad) | Tiny, figure 1 | 1 of 2 |" in (tmp_path / "elsewhere.md").read_text()


def test_a_plot_of_an_earlier_run_is_not_on_the_page(experiment: Tidings, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results/tiny-good.svg").write_text("<svg/>")
    assert experiment("all", "--no-plot").code == 0
    assert "![" not in (tmp_path / "docs/results.md").read_text()


# ---- the person who waits ---------------------------------------------------------------------------------------------


def test_a_bar_only_on_a_terminal(experiment: Tidings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "5/5" not in experiment("tiny-good", "--no-plot").err
    terminal = io.StringIO()

    def console(*, stderr: bool = False) -> Console:
        return Console(file=terminal, force_terminal=True, width=100) if stderr else Console(width=100)

    monkeypatch.setattr("cli.show.console", console)
    said = experiment("tiny-good", "--no-plot", "--json")
    assert json.loads(said.out)["seeds"] == 5
    assert "5/5" in terminal.getvalue()


# ---- help -------------------------------------------------------------------------------------------------------------


def test_help_has_an_example(experiment: Tidings) -> None:
    for arguments in (["--help"], []):
        said = experiment(*arguments)
        assert "Example: tidings experiment agele-fig3 --quick" in said.out + said.err


@pytest.mark.usefixtures("experiment")
def test_names_are_completed() -> None:
    assert command._complete("") == ["list", "all", "tiny-good", "tiny-bad"]
    assert command._complete("tiny-b") == ["tiny-bad"]


def test_the_seed_of_the_command_is_the_usual_one(experiment: Tidings) -> None:
    assert json.loads(experiment("tiny-good", "--json", "--no-plot").out)["rows"][0]["seed"] == DEFAULT_SEED * 10_000


def test_the_command_line_loads_no_experiment_before_it_must() -> None:
    code = (
        "import sys\nfrom cli import main\n"
        "print([name for name in ('experiments', 'matplotlib', 'networkx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
