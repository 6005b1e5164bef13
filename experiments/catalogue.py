"""Which experiments there are, in the order in which they are listed and run."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from experiments.harness import Experiment
from tidings.errors import TidingsError

# A new experiment is a module of its paper's room and its name here. `agele.fig3` holds the experiment `agele-fig3`.
MODULES: tuple[str, ...] = (
    "agele.fig3",
    "agele.fig4",
    "agele.fig5",
    "agele.fig6",
    "agele.better",
    "das.matching",
    "das.brokers",
    "das.covering",
    "das.types",
    "das.locality",
    "das.profiles",
    "das.adaptive",
    "adock.table1",
    "adock.fig6",
    "adock.fig7",
    "adock.fig8",
    "adock.fig9",
    "adock.readings",
    "adock.mixed",
)


class UnknownExperiment(TidingsError):
    """There is no experiment of that name."""

    exit_code = 2

    def __init__(self, name: str, known: Sequence[str]) -> None:
        close = get_close_matches(name, known, n=3, cutoff=0.4)
        meant = f"did you mean {' or '.join(close)}?" if close else "`tidings experiment list` shows what there is"
        super().__init__(f"there is no experiment {name!r}; {meant}")
        self.close = close


def names() -> list[str]:
    """All names, without importing anything."""
    return [module.replace(".", "-").replace("_", "-") for module in MODULES]


def experiments() -> dict[str, Experiment]:
    """All experiments by name, in order."""
    return {name: find(name) for name in names()}


def find(name: str) -> Experiment:
    """The experiment of that name. Only its own module is imported."""
    known = names()
    if name not in known:
        raise UnknownExperiment(name, known)
    module = MODULES[known.index(name)]
    experiment = import_module(f"experiments.{module}").EXPERIMENT
    if not isinstance(experiment, Experiment) or experiment.name != name:
        raise ValueError(f"experiments/{module.replace('.', '/')}.py should hold the experiment {name!r}, not {experiment!r}")
    return experiment
