"""`tidings experiment`: what the papers measured, measured again and put beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import connecting, show
from tidings.errors import CannotRun

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.table import Table

    from experiments.harness import Conducted, Experiment, Result, RunProgress, Settings

_PAGE = Path("docs/results.md")


def _complete(incomplete: str) -> list[str]:
    from experiments.catalogue import names

    return [name for name in ("list", "all", *names()) if name.startswith(incomplete)]


def experiment(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|list|all",
            help="Which to run; `list` shows what there is, `all` runs everything.",
            autocompletion=_complete,
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds, smaller sizes: rough figures, soon.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Another seed is another sample.")] = 1,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where NAME.csv, .json, .svg and .png go.")] = Path("results"),
    as_json: connecting.AsJson = False,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw nothing; needs no matplotlib.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if a claim does not hold.")] = False,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="With `all`: the page of results to write.", show_default=str(_PAGE)),
    ] = None,
) -> None:
    """Repeat an experiment of the papers, and show their figures and ours side by side.

    The result is the result: without --strict the exit code is 0 also when a claim of the paper does not hold.

    Example: tidings experiment list

    Example: tidings experiment agele-fig3 --quick
    """
    if page is not None and name != "all":
        raise typer.BadParameter("only `all` writes a page", param_hint="--page")
    if name == "list":
        _list(as_json)
        return
    from experiments.catalogue import experiments, find
    from experiments.harness import Settings

    settings = Settings(quick=quick, seed=seed)
    chosen = list(experiments().values()) if name == "all" else [find(name)]
    if not chosen:
        raise CannotRun("there are no experiments yet")
    folders = [out, (page or _PAGE).parent] if name == "all" else [out]
    _prepare(folders, not no_plot)
    done = []
    for number, each in enumerate(chosen, 1):
        if name == "all":
            show.remark(f"{each.name}, {number} of {len(chosen)}")
        done.append(_run(each, settings, out, as_json, not no_plot))
    if name == "all":
        _write_page(done, settings, None if no_plot else out, page or _PAGE)
    if strict and not all(each.holds for each in done):
        raise typer.Exit(1)


def _list(as_json: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from experiments.catalogue import experiments

    found = experiments().values()
    if as_json:
        show.as_json([{"name": each.name, "paper": each.paper, "title": each.title} for each in found])
        return
    if not found:
        print("There are no experiments yet.")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "repeats", "about"):
        table.add_column(column)
    for each in found:
        table.add_row(Text(each.name, style="bold"), Text(each.paper), Text(each.title))
    show.console().print(table)


# ---- running ----------------------------------------------------------------------------------------------------------


def _prepare(folders: Sequence[Path], plot: bool) -> None:
    """What could go wrong after a long run is tried before it."""
    from experiments import plots
    from experiments.harness import make_folder

    if plot:
        plots.check()
    for folder in folders:
        make_folder(folder)


def _run(experiment: Experiment, settings: Settings, out: Path, as_json: bool, plot: bool) -> Conducted:
    from dataclasses import replace

    from experiments import plots
    from experiments.harness import conduct, write_data, writing

    with _progress(experiment.name) as progress:
        conducted = conduct(experiment, replace(settings, progress=progress))
    with writing(out):
        written = write_data(conducted, out)
        if plot:
            written += plots.draw(conducted.result.plots, out, experiment.name)
    _print(conducted, as_json)
    show.remark(f"written: {', '.join(str(file) for file in written)}")
    return conducted


def _write_page(done: Sequence[Conducted], settings: Settings, plots: Path | None, page: Path) -> None:
    """Without ``plots``, there are none: those of an earlier run do not belong to these results."""
    from experiments.harness import to_dict, writing
    from experiments.page import write_page

    with writing(page):
        write_page([to_dict(each) for each in done], plots, page, command=f"tidings experiment all{settings.options}")
    show.remark(f"written: {page}")


@contextmanager
def _progress(name: str) -> Iterator[RunProgress]:
    """A bar for the person who waits; nothing where nobody looks."""
    from rich import progress

    from experiments.harness import Silent

    console = show.console(stderr=True)
    if not console.is_terminal:
        yield Silent()
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True) as bars:
        yield _Bar(bars, name)


class _Bar:
    def __init__(self, bars: RichProgress, name: str) -> None:
        self._bars = bars
        self._task = bars.add_task(name, total=None)

    def start(self, total: int) -> None:
        self._bars.reset(self._task, total=total)

    def advance(self) -> None:
        self._bars.advance(self._task)


# ---- printing ---------------------------------------------------------------------------------------------------------


def _print(conducted: Conducted, as_json: bool) -> None:
    from rich.text import Text

    from experiments.harness import basis, to_dict

    if as_json:
        show.as_json(to_dict(conducted))
        return
    console, result = show.console(), conducted.result
    console.print(Text.assemble((conducted.experiment.title, "bold"), (f"  {conducted.experiment.paper}", "dim")))
    console.print(_figures(result))
    console.print(Text(basis(result.seeds) + (", quick" if conducted.settings.quick else ""), style="dim"))
    if result.claims:
        console.print(_claims(result))
    for note in result.notes:
        console.print(Text(f"Note: {note}", style="dim"), soft_wrap=False)
    console.print()


def _figures(result: Result) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, column in enumerate(result.table.columns):
        table.add_column(Text(column), justify="right" if number else "left", overflow="fold")
    for row in result.table.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _claims(result: Result) -> Table:
    from rich.table import Table
    from rich.text import Text

    marks: Mapping[bool, Any] = {True: Text("✓", style="green"), False: Text("✗", style="bold red")}
    table = Table(box=None, pad_edge=False)
    for column in ("", "claim", "paper", "ours"):
        table.add_column(column, overflow="fold")
    for each in result.claims:
        table.add_row(marks[each.holds], *(Text(cell) for cell in (each.claim, each.paper, each.ours)))
    return table
