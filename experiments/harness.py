"""What an experiment is, what it brings back, and how it is run.

An experiment measures what a paper measured and puts both side by side. It is a module of this room with one value,
``EXPERIMENT``; `catalogue.py` names it. Its ``run`` gets `Settings` and returns a `Result`: it prints nothing, writes nothing
and takes all chance from ``Settings.seeds``.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from tidings.errors import CannotRun

T = TypeVar("T")
Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = Mapping[str, Cell]
Style: TypeAlias = Literal["ours", "paper", "baseline"]

DEFAULT_SEED = 1
# The seeds of `--seed 1` and `--seed 2` must not overlap, or a second run would mostly repeat the first.
_SEEDS_APART = 10_000
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_WORDS_OF_THE_COMMAND = ("all", "list")


# ---- what goes in -----------------------------------------------------------------------------------------------------


class RunProgress(Protocol):
    """Whoever shows how far a run has come. ``start`` may be called again for a further stage."""

    def start(self, total: int) -> None: ...

    def advance(self) -> None: ...


class Silent:
    """Shows nothing."""

    def start(self, total: int) -> None: ...

    def advance(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is asked for: ``quick`` means fewer seeds and smaller sizes, to see that it works."""

    quick: bool = False
    seed: int = DEFAULT_SEED
    progress: RunProgress = field(default_factory=Silent)

    def seeds(self, full: int, quick: int) -> range:
        """The seeds to use, ``full`` of them or ``quick``; those of a quick run are the first of a full one."""
        count = quick if self.quick else full
        if not 1 <= count <= _SEEDS_APART:
            raise ValueError(f"between 1 and {_SEEDS_APART} seeds, not {count}")
        first = self.seed * _SEEDS_APART
        return range(first, first + count)

    def track(self, steps: Sequence[T]) -> Iterator[T]:
        """The steps one by one, each counted as progress when it is done."""
        self.progress.start(len(steps))
        for step in steps:
            yield step
            self.progress.advance()

    @property
    def options(self) -> str:
        """The options that lead to the same result, as they follow the command; empty for the usual ones."""
        return (" --quick" if self.quick else "") + (f" --seed {self.seed}" if self.seed != DEFAULT_SEED else "")


# ---- what comes out ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """What many seeds say of one figure: the median, and the quartiles around it."""

    median: float
    low: float
    high: float
    seeds: int

    def format(self, spec: str = ".3g") -> str:
        """
        >>> Spread(0.712, 0.698, 0.721, seeds=30).format(".1%")
        '71.2% (69.8% to 72.1%)'
        >>> Spread(4.0, 4.0, 4.0, seeds=30).format(".1f")
        '4.0'
        """
        median, low, high = (f"{each:{spec}}" for each in (self.median, self.low, self.high))
        return median if median == low == high else f"{median} ({low} to {high})"


def spread(values: Iterable[float]) -> Spread:
    """Median and interquartile range, between neighbours by linear interpolation.

    >>> spread([5, 1, 3, 2, 4])
    Spread(median=3.0, low=2.0, high=4.0, seeds=5)
    """
    ordered = sorted(float(each) for each in values)
    if not ordered or not all(map(math.isfinite, ordered)):
        raise ValueError(f"a spread needs figures, and finite ones, not {ordered}")
    return Spread(_quantile(ordered, 0.5), _quantile(ordered, 0.25), _quantile(ordered, 0.75), len(ordered))


def _quantile(ordered: Sequence[float], share: float) -> float:
    at = (len(ordered) - 1) * share
    below = ordered[int(at)]
    above = ordered[math.ceil(at)]
    return below + (above - below) * (at - int(at))


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """Something the paper says, in words, with the paper's figure and ours, ready to print."""

    claim: str
    paper: str
    ours: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Table:
    """What is printed: the paper's columns and ours side by side, formatted."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"the table has the columns {list(self.columns)}, but a row {list(row)}")


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot. The paper's and ours get the same colour if they have the same label."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: Style = "ours"

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError(f"the series {self.label!r} has one side of a spread only")
        if any(len(each) != len(self.x) for each in (self.y, self.low, self.high) if each is not None):
            raise ValueError(f"the series {self.label!r} has x, y and spread of different lengths")

    @classmethod
    def of(cls, label: str, x: Sequence[float], spreads: Sequence[Spread], style: Style = "ours") -> Series:
        """The medians, with the quartiles as a band."""
        low, high = [each.low for each in spreads], [each.high for each in spreads]
        return cls(label, x, [each.median for each in spreads], low, high, style)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run found. ``rows`` is the data, for machines; all of them have the same columns.

    ``seeds`` says how many seeds each figure rests on; 0 means that no chance is involved.
    """

    rows: Sequence[Row]
    claims: Sequence[PaperClaim]
    table: Table
    seeds: int
    plots: Sequence[Plot] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a result has at least one row")
        for row in self.rows:
            if row.keys() != self.rows[0].keys():
                raise ValueError(f"the first row has the columns {list(self.rows[0])}, another {list(row)}")
            for column, cell in row.items():
                if not isinstance(cell, Cell):
                    raise ValueError(
                        f"{column} = {cell!r} is a {type(cell).__name__}; a cell is text, a number, a boolean or None"
                    )


@dataclass(frozen=True, slots=True)
class Experiment:
    """Which figure of which paper is measured again, and how. ``title`` is one line that says what it is about."""

    name: str
    title: str
    paper: str
    run: Callable[[Settings], Result]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _WORDS_OF_THE_COMMAND:
            raise ValueError(f"{self.name!r} cannot be the name of an experiment")


# ---- running ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conducted:
    """An experiment that has been run, and what it was asked for."""

    experiment: Experiment
    settings: Settings
    result: Result
    seconds: float

    @property
    def command(self) -> str:
        """What to type to get the same result."""
        return f"tidings experiment {self.experiment.name}{self.settings.options}"

    @property
    def holds(self) -> bool:
        return all(claim.holds for claim in self.result.claims)


def conduct(experiment: Experiment, settings: Settings, clock: Callable[[], float] = time.monotonic) -> Conducted:
    """Run it."""
    started = clock()
    result = experiment.run(settings)
    return Conducted(experiment, settings, result, clock() - started)


def basis(seeds: int) -> str:
    """How to read the figures.

    >>> basis(30), basis(1), basis(0)
    ('30 seeds; median (interquartile range)', '1 seed', 'no chance involved')
    """
    if seeds == 0:
        return "no chance involved"
    return "1 seed" if seeds == 1 else f"{seeds:,} seeds; median (interquartile range)"


def to_dict(conducted: Conducted) -> dict[str, Any]:
    """As JSON has it. JSON has no word for infinity, nor for what is no number: such a cell is null."""
    experiment, result = conducted.experiment, conducted.result
    return {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "command": conducted.command,
        "quick": conducted.settings.quick,
        "seeds": result.seeds,
        "seconds": round(conducted.seconds, 3),
        "rows": [{column: _finite(cell) for column, cell in row.items()} for row in result.rows],
        "claims": [{"claim": c.claim, "paper": c.paper, "ours": c.ours, "holds": c.holds} for c in result.claims],
        "table": {"columns": list(result.table.columns), "rows": [list(row) for row in result.table.rows]},
        "notes": list(result.notes),
    }


def _finite(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


# ---- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """What the disk refuses in here is said in a line, with the file it is about."""
    try:
        yield
    except OSError as error:
        raise CannotRun(f"{error.filename or place} cannot be written: {error.strerror}") from error


def make_folder(folder: Path) -> None:
    """Make sure of it before a long run, not after."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def write_data(conducted: Conducted, folder: Path) -> list[Path]:
    """Write ``<name>.csv`` and ``<name>.json``; says which files those are."""
    table, whole = (folder / f"{conducted.experiment.name}.{ending}" for ending in ("csv", "json"))
    table.write_text(_as_csv(conducted.result.rows), encoding="utf-8", newline="")
    whole.write_text(json.dumps(to_dict(conducted), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return [table, whole]


def _as_csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
