"""Who decides whether a range is forwarded or aggregated when it expires: one decider for each outgoing link.

A new decider is a module in here with a class that has a `name`, and that name in `tidings.topic.Deciding`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from streaming.windows.deciders.decision import Choice, ChoiceReason, Decider, Decision
from tidings.errors import TidingsError
from tidings.topic import Deciding

__all__ = ["DECIDERS", "Choice", "ChoiceReason", "Decider", "Decision", "UnknownDecider", "decider"]


def _named() -> dict[str, type[Decider]]:
    """The deciders of all modules in here, in the order of `Deciding`."""
    modules = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]
    classes: list[type[Decider]] = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    found = {each.name: each for each in classes if isinstance(getattr(each, "name", None), str)}
    if found.keys() != set(Deciding):
        raise TypeError(f"these deciders have no class, or are not in Deciding: {sorted(found.keys() ^ set(Deciding))}")
    return {str(name): found[name] for name in Deciding}


_BY_NAME: dict[str, type[Decider]] = _named()
DECIDERS: tuple[str, ...] = tuple(_BY_NAME)


class UnknownDecider(TidingsError, KeyError):
    """There is no decider of this name."""

    exit_code = 2

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no decider {name!r}; there are {', '.join(DECIDERS)}")

    __str__ = TidingsError.__str__


def decider(name: str) -> Decider:
    """A new decider, which has learned nothing yet."""
    try:
        return _BY_NAME[name]()
    except KeyError:
        raise UnknownDecider(name) from None
